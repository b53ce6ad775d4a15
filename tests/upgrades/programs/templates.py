"""The stacks of users, as this version's constructs make them: prints, by stack, what an update must find again.

`templates.py FOLDER`, with a handler in FOLDER/code and a layer in FOLDER/layer. What an update must find again are
resources that keep data or have a name of their own, under their logical ids; and outputs, on which other stacks and
scripts depend; and what a user's own alarms watch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, CfnOutput, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template
from aws_cdk.aws_kinesis import Stream
from sublet.metric_names import Metric
from sublet_cdk import ConsumerMonitoring, KinesisConsumer, KinesisConsumerService
from sublet_cdk.consumer_stack import ConsumerStack

ARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
NAMES = [
    *(
        "TableName",
        "LogGroupName",
        "QueueName",
        "StateMachineName",
        "FunctionName",
        "DashboardName",
        "AlarmName",
    ),
    *("BucketName", "TopicName", "ServiceName", "ClusterName", "RoleName"),
]
OF_AN_ALARM = ("Namespace", "MetricName", "Dimensions", "Metrics")


def main() -> None:
    folder = Path(sys.argv[1])
    app = App(context={"aws:cdk:disable-asset-staging": True})
    stacks = {
        "deployed by the command": deployed(app, folder),
        "construct, used by another stack": used(app, folder),
        "imported lease table": imported(app, folder),
        "service": service(app, folder),
        "monitoring": monitoring(app),
    }
    print(json.dumps({name: kept(Template.from_stack(stack).to_json()) for name, stack in stacks.items()}))


def given(folder: Path) -> dict[str, Any]:
    return {
        "handler_code": str(folder / "code"),
        "handler": "orders:handle",
        "dependencies_layer": folder / "layer",
    }


def deployed(app: App, folder: Path) -> Stack:
    context = {"application": "deployed", "stream_arn": ARN, "handler_code": str(folder / "code")}
    overrides = {"dependencies_layer": folder / "layer"}
    return ConsumerStack(app, "deployed", defaults={**context, "handler": "orders:handle"}, overrides=overrides)


def used(app: App, folder: Path) -> Stack:
    stack, other = Stack(app, "used"), Stack(app, "user")
    stream = Stream.from_stream_arn(stack, "Orders", ARN)
    consumer = KinesisConsumer(stack, "Audit", application="used", stream=stream, **given(folder))
    for name in ("lease_table", "sightings_table"):
        CfnOutput(other, name, value=getattr(consumer, name).table_name)
    CfnOutput(other, "worker", value=consumer.worker.function_arn)
    CfnOutput(other, "manager", value=consumer.manager.function_arn)
    CfnOutput(other, "executions", value=consumer.state_machine_arn)
    for metric in Metric:
        if metric == "standstill_age":  # only with monitoring=lean
            continue
        mine = consumer.metric(metric, "Sum")
        mine.create_alarm(stack, f"Mine-{metric.value}", threshold=1, evaluation_periods=1)
    return stack


def imported(app: App, folder: Path) -> Stack:
    stack = Stack(app, "imported")
    stream = Stream.from_stream_arn(stack, "Orders", ARN)
    table = dynamodb.TableV2.from_table_name(stack, "Leases", "imported")
    KinesisConsumer(stack, "Audit", application="imported", stream=stream, lease_table=table, **given(folder))
    return stack


def service(app: App, folder: Path) -> Stack:
    stack = Stack(app, "service")
    stream = Stream.from_stream_arn(stack, "Orders", ARN)
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-1", availability_zones=["eu-central-1a"], private_subnet_ids=["subnet-1"]
    )
    code: dict[str, Any] = {"handler_code": str(folder / "code"), "handler": "orders:handle"}
    KinesisConsumerService(
        stack, "Audit", application="service", stream=stream, vpc=vpc, dependencies=folder / "layer", **code
    )
    return stack


def monitoring(app: App) -> Stack:
    stack = Stack(app, "monitoring")
    ConsumerMonitoring(stack, "Audit", application="monitored")
    return stack


def kept(template: Mapping[str, Any]) -> dict[str, Any]:
    resources = {}
    for logical_id, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        named = {name: properties[name] for name in NAMES if isinstance(properties.get(name), str)}
        if named or resource.get("DeletionPolicy", "Delete") != "Delete":
            resources[logical_id] = {"type": resource["Type"], **named}
            if "KeySchema" in properties:
                resources[logical_id]["keys"] = properties["KeySchema"]
        if logical_id.startswith("Mine"):
            resources[logical_id] = {name: properties[name] for name in OF_AN_ALARM if name in properties}
    return {"resources": resources, "outputs": template.get("Outputs", {})}


if __name__ == "__main__":
    main()
