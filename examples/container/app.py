"""A consumer on ECS Fargate: `cdk deploy --app "python app.py"`, with the VPC's id and the stream's ARN in the
context.

No Dockerfile and no registry: synth assembles the code, and the tasks fetch it from S3.
"""

from __future__ import annotations

from pathlib import Path

from aws_cdk import App, Duration, Environment, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from sublet_cdk import KinesisConsumerService


def orders(stack: Stack, vpc: ec2.IVpc, stream: kinesis.IStream) -> KinesisConsumerService:
    """Runs at least two tasks, and up to one for each of eight shards, all but the first on Spot."""
    alarms = sns.Topic(stack, "Alarms", enforce_ssl=True)
    alarms.add_subscription(subscriptions.EmailSubscription("orders-team@example.com"))
    return KinesisConsumerService(
        stack,
        "Orders",
        application="orders-audit",
        stream=stream,
        handler_code=Path(__file__).parent / "handlers",
        handler="orders:handle",
        vpc=vpc,
        min_tasks=2,
        max_tasks=8,
        scale_out_lag=Duration.minutes(2),
        spot=True,
        alarm_topic=alarms,
        outputs=True,
    )


def main() -> None:
    app = App()
    account, region = app.node.get_context("account"), app.node.get_context("region")
    stack = Stack(app, "orders", env=Environment(account=account, region=region))
    vpc = ec2.Vpc.from_lookup(stack, "Vpc", vpc_id=app.node.get_context("vpc_id"))
    stream = kinesis.Stream.from_stream_arn(stack, "Stream", app.node.get_context("stream_arn"))
    orders(stack, vpc, stream)
    app.synth()


if __name__ == "__main__":
    main()
