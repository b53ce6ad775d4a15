"""A user's CDK app around a consumer: an alarm of theirs on one of its metrics, and a second stack that uses its
outputs.

Each version's own Python runs it, so it uses what both have.
"""

from __future__ import annotations

from aws_cdk import App, CfnOutput, CliCredentialsStackSynthesizer, Stack
from sublet_cdk.consumer_stack import ConsumerStack

try:  # 0.2's name
    from sublet_cdk.names import consumer_stack  # type: ignore[import-untyped]
except ImportError:
    from sublet.operate.rules.stack_names import consumer_stack


def main() -> None:
    app = App()
    name = consumer_stack(app.node.get_context("application"))
    first = ConsumerStack(app, name, synthesizer=CliCredentialsStackSynthesizer())
    waiting = first.consumer.metric_unclaimed_leases()
    waiting.create_alarm(first, "Waiting", alarm_name=f"{name}-waiting", threshold=100, evaluation_periods=5)
    other = Stack(app, f"{name}-user", synthesizer=CliCredentialsStackSynthesizer())
    for output, value in first.consumer.names().items():
        CfnOutput(other, output, value=value)  # the CDK exports what is made, and imports it here
    errors = first.consumer.worker.metric_errors()
    errors.create_alarm(other, "Errors", alarm_name=f"{name}-errors", threshold=1, evaluation_periods=1)
    app.synth()


if __name__ == "__main__":
    main()
