"""The network of a pipeline's workers, which must reach Kinesis."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from constructs import Construct
from sublet.errors import SettingsError
from sublet_cdk.networks import select

ENDPOINTS = "Kinesis, S3, CloudWatch Logs and, with an application, DynamoDB"


def worker_network(
    scope: Construct,
    vpc: ec2.IVpc | None,
    subnets: ec2.SubnetSelection | None,
    groups: Sequence[ec2.ISecurityGroup] | None,
) -> emr.CfnApplication.NetworkConfigurationProperty:
    """Raises SettingsError if no worker could reach Kinesis: each run would otherwise pay for its workers until it
    gives up."""
    if vpc is None:
        raise SettingsError(
            "vpc",
            None,
            "a network that reaches Kinesis. Without one a job only reaches S3, Glue, Lake Formation, CloudWatch "
            "Logs, KMS, STS, "
            'DynamoDB and Secrets Manager (EMR Serverless User Guide, "Other considerations")',
        )
    if subnets is None and not vpc.private_subnets:
        raise SettingsError(
            "vpc_subnets",
            None,
            "the workers' subnets: the network has no private ones with internet access. Isolated ones work too, as "
            f"SubnetSelection(subnet_type=SubnetType.PRIVATE_ISOLATED), if it has endpoints for {ENDPOINTS}",
        )
    chosen = select(vpc, subnets or ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS))
    if chosen.has_public:
        raise SettingsError(
            "vpc_subnets", "public", "private subnets: EMR Serverless gives its workers no public address"
        )
    made = groups or [ec2.SecurityGroup(scope, "Workers", vpc=vpc, description="sublet: workers of the pipeline")]
    return emr.CfnApplication.NetworkConfigurationProperty(
        subnet_ids=chosen.subnet_ids, security_group_ids=[group.security_group_id for group in made]
    )
