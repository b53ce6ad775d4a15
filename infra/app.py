"""`cdk synth`, `cdk deploy`: the wheel's CDK app, checked by cdk-nag, with an example to deploy.

cdk deploy                       -c application=... -c stream_arn=... ...    a consumer
cdk deploy -c stack=pipeline     -c name=... -c stream_arn=... ...           a pipeline
"""

from __future__ import annotations

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks
from sublet_cdk.app import synthesize

EXAMPLE = {"application": "flights", "handler_code": "examples/flights", "handler": "flights:handle"}


def main() -> None:
    app = App()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    synthesize(app, EXAMPLE)


if __name__ == "__main__":
    main()
