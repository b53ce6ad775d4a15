"""`cdk synth`, `cdk deploy`: one of the repository's own stacks, with cdk-nag looking at it.

cdk deploy                       -c application=... -c stream_arn=... ...    a consumer (infra/sublet_cdk/consumer_stack.py)
cdk deploy -c stack=pipeline     -c name=... -c stream_arn=... ...           a pipeline (infra/sublet_cdk/spark_stack.py)
"""

from __future__ import annotations

import sys

from aws_cdk import App, CliCredentialsStackSynthesizer, Stack, Tags, Validations
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError
from sublet_cdk.consumer_stack import ConsumerStack
from sublet_cdk.context import OWN_CREDENTIALS, STACK
from sublet_cdk.spark_stack import PipelineStack


def main() -> None:
    app = App()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        stack = stack_of(app)
    except SettingsError as refused:
        sys.exit(f"sublet: {refused}")
    Tags.of(stack).add("project", "sublet")
    app.synth()


def stack_of(app: App) -> Stack:
    """The stack that the context asks for; SettingsError if it asks for none or wrongly."""
    own_credentials = str(app.node.try_get_context(OWN_CREDENTIALS)).lower() == "true"
    synthesizer = CliCredentialsStackSynthesizer() if own_credentials else None
    match app.node.try_get_context(STACK) or "consumer":
        case "consumer":
            return ConsumerStack(
                app,
                "sublet-consumer",
                description="sublet: a Kinesis consumer on short leases",
                synthesizer=synthesizer,
            )
        case "pipeline":
            return PipelineStack(
                app,
                "sublet-pipeline",
                description="sublet: a Kinesis stream into tables, on EMR Serverless",
                synthesizer=synthesizer,
            )
        case other:
            raise SettingsError(STACK, other, "consumer or pipeline")


if __name__ == "__main__":
    main()
