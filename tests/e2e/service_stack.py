"""A CDK app: an application of the embedded AWS as a service, on the tables that it has. `SERVICE` in the environment
is a JSON object of what it is.

Left out is what the emulator lacks: Application Auto Scaling, and the cluster's capacity providers. It starts no
containers either: the test does.
"""

from __future__ import annotations

import json
import os

from aws_cdk import App, CliCredentialsStackSynthesizer, Environment, Stack
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct
from sublet.operate.rules.deploying import table_keys
from sublet_cdk import KinesisConsumerService

LACKING = (scaling.CfnScalableTarget, scaling.CfnScalingPolicy)


def main() -> None:
    app, given = App(), json.loads(os.environ["SERVICE"])
    application = given["application"]
    place = Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"])
    stack = Stack(app, given["stack"], env=place, synthesizer=CliCredentialsStackSynthesizer())
    leases, sightings = (
        dynamodb.Table.from_table_name(stack, f"Table{number}", name)
        for number, name in enumerate(table_keys(application).values())
    )
    network = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id=given["vpc"],
        availability_zones=[given["zone"]],
        public_subnet_ids=[given["subnet"]],
        public_subnet_route_table_ids=[given["route_table"]],
    )
    service = KinesisConsumerService(
        stack,
        "Service",
        application=application,
        stream=kinesis.Stream.from_stream_arn(stack, "Stream", given["stream_arn"]),
        handler="recorder:handle",
        handler_code=given["handler_code"],
        vpc=network,
        cluster=ecs.Cluster(stack, "Cluster", vpc=network),
        assign_public_ip=True,
        environment=given["variables"],
        architecture=given["architecture"],
        lease_table=leases,
        sightings_table=sightings,
        monitoring="none",
        outputs=True,
        **given["settings"],
    )
    leave_out_what_is_lacking(service)
    app.synth()


def leave_out_what_is_lacking(scope: Construct) -> None:
    for each in scope.node.find_all():
        if isinstance(each, LACKING) and each.node.scope is not None:
            each.node.scope.node.try_remove_child(each.node.id)


if __name__ == "__main__":
    main()
