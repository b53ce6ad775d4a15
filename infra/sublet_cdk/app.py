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
from sublet_cdk import names
from sublet_cdk.consumer_stack import ConsumerStack
from sublet_cdk.context import OWN_CREDENTIALS, STACK
from sublet_cdk.spark_stack import PipelineStack


def main() -> None:
    synthesize(App())


def synthesize(app: App, defaults: Mapping[str, str] | None = None) -> None:
    """Write the template, or end the process with one sentence. `defaults` stand for a consumer's context that is not given."""
    try:
        Tags.of(stack_of(app, defaults or {})).add("project", "sublet")
    except SubletError as refused:
        sys.exit(f"sublet: {refused}")
    app.synth()


def stack_of(app: App, defaults: Mapping[str, str]) -> Stack:
    """The stack that the context asks for; SettingsError if it asks for none or wrongly."""
    own_credentials = str(app.node.try_get_context(OWN_CREDENTIALS)).lower() == "true"
    # A network is looked up in one account and region: those that the CDK's command line was run for.
    place = {"account": os.environ.get("CDK_DEFAULT_ACCOUNT"), "region": os.environ.get("CDK_DEFAULT_REGION")}
    env = Environment(**place) if app.node.try_get_context("vpc_id") else None
    synthesizer = CliCredentialsStackSynthesizer() if own_credentials else None
    match app.node.try_get_context(STACK) or "consumer":
        case "consumer":
            return ConsumerStack(
                app,
                names.consumer_stack(_text(app, "application", defaults)),
                description="sublet: a Kinesis consumer on short leases",
                synthesizer=synthesizer,
                env=env,
                defaults=defaults,
            )
        case "pipeline":
            return PipelineStack(
                app,
                names.pipeline_stack(_text(app, "name", {})),
                description="sublet: a Kinesis stream into tables, on EMR Serverless",
                synthesizer=synthesizer,
                env=env,
            )
        case other:
            raise SettingsError(STACK, other, "consumer or pipeline")


def _text(app: App, key: str, defaults: Mapping[str, str]) -> str:
    """What names the stack: it has to be known before the stack looks at the context."""
    return str(app.node.try_get_context(key) or defaults.get(key) or "unnamed")


if __name__ == "__main__":
    main()
