"""The CDK app of `sublet deploy` and `sublet synth`: one stack, described by CDK context alone.

-c application=... -c stream_arn=... -c handler_code=... -c handler=...    a consumer (consumer_stack.py)
-c stack=pipeline -c name=... -c stream_arn=... ...                        a pipeline (spark_stack.py)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from aws_cdk import App, CliCredentialsStackSynthesizer, Environment, Stack, Tags
from sublet.errors import SettingsError, SubletError
from sublet.operate.rules import stack_names
from sublet_cdk.consumer_stack import ConsumerStack
from sublet_cdk.context import OWN_CREDENTIALS, STACK, stated
from sublet_cdk.places import place_of
from sublet_cdk.spark_stack import PipelineStack

UNNAMED = "unnamed"
"""The stack gets its name before it reads the context, and refuses what is missing."""


def main() -> None:
    synthesize(App())


def synthesize(app: App, defaults: Mapping[str, str] | None = None) -> None:
    """Write the template, or end the process with a one-line error. `defaults` fill in missing context of a
    consumer.
    """
    try:
        Tags.of(stack_of(app, defaults or {})).add("project", "sublet")
    except SubletError as refused:
        sys.exit(f"sublet: {refused}")
    app.synth()


def stack_of(app: App, defaults: Mapping[str, str]) -> Stack:
    """The stack that the context describes. Raises SettingsError."""
    context = {**defaults, **stated(app)}
    env = _place(context)
    synthesizer = CliCredentialsStackSynthesizer() if context.get(OWN_CREDENTIALS, "").lower() == "true" else None
    match context.get(STACK, "consumer"):
        case "consumer":
            return ConsumerStack(
                app,
                stack_names.consumer_stack(context.get("application", UNNAMED)),
                description="sublet: a Kinesis consumer on short leases",
                synthesizer=synthesizer,
                env=env,
                defaults=defaults,
            )
        case "pipeline":
            return PipelineStack(
                app,
                stack_names.pipeline_stack(context.get("name", UNNAMED)),
                description="sublet: a Kinesis stream into tables, on EMR Serverless",
                synthesizer=synthesizer,
                env=env,
            )
        case other:
            raise SettingsError(STACK, other, "consumer or pipeline")


def _place(context: Mapping[str, str]) -> Environment:
    """The stack's environment: the stream's region, and the account of the CDK's command line. Looking up a network
    requires a known account and region."""
    region = place_of(context["stream_arn"]).region if "stream_arn" in context else None
    if "vpc_id" not in context:
        return Environment(region=region)
    account, region = os.environ.get("CDK_DEFAULT_ACCOUNT"), region or os.environ.get("CDK_DEFAULT_REGION")
    if account is None or region is None:
        raise SettingsError(
            "vpc_id",
            context["vpc_id"],
            "looked up at synth, which takes AWS credentials: log in, or set AWS_PROFILE",
        )
    return Environment(account=account, region=region)


if __name__ == "__main__":
    main()
