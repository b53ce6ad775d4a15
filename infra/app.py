"""`cdk synth`, `cdk deploy`: the repository's own stack, with cdk-nag looking at it."""

from __future__ import annotations

import sys

from aws_cdk import App, CliCredentialsStackSynthesizer, Tags, Validations
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError

from infra.consumer_stack import ConsumerStack

STACK = "sublet-consumer"


def main() -> None:
    app = App()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    own_credentials = str(app.node.try_get_context("cli_credentials")).lower() == "true"
    try:
        stack = ConsumerStack(
            app,
            STACK,
            description="sublet: a Kinesis consumer on short leases",
            synthesizer=CliCredentialsStackSynthesizer() if own_credentials else None,
        )
    except SettingsError as refused:
        sys.exit(f"sublet: {refused}")
    Tags.of(stack).add("project", "sublet")
    app.synth()


if __name__ == "__main__":
    main()
