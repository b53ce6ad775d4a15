"""Who may do what: one role for each function, every action spelled out, every resource named.

No `grant_*`: CDK's grants give more than is used (`grant_read` on a stream includes what our code never
calls).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

LEASE_MANAGER_ON_LEASES = [
    "dynamodb:Scan",
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",
]
LEASE_MANAGER_ON_SIGHTINGS = ["dynamodb:Scan", "dynamodb:PutItem", "dynamodb:DeleteItem"]
LEASE_MANAGER_ON_STREAM = ["kinesis:ListShards", "kinesis:GetShardIterator"]
LEASE_WORKER_ON_LEASES = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
LEASE_WORKER_ON_STREAM = ["kinesis:GetRecords", "kinesis:GetShardIterator", "kinesis:ListShards"]

PIPELINE_ON_STREAM = [
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
]
PIPELINE_ON_LEASES = {
    "none": [],
    "follow": ["dynamodb:Scan"],
    "hold": [
        "dynamodb:Scan",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
    ],
}
"""By the source's option `leases`."""
PIPELINE_ON_TABLES = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]


def allow(actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def write_log(log_group_arn: str) -> iam.PolicyStatement:
    """For one existing log group. Metrics need nothing else: they are written to the log in embedded metric
    format.
    """
    return allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group_arn)


def role_of(
    scope: Construct,
    construct_id: str,
    service: str,
    duties: Mapping[str, iam.PolicyStatement | None],
    on_behalf_of: str | None = None,
) -> iam.Role:
    """A role with one inline policy for each duty, so that a reader of the console sees why it may do
    something. `on_behalf_of` is the ARN of the one resource for which the service may take it.
    """
    conditions = {"ArnEquals": {"aws:SourceArn": on_behalf_of}} if on_behalf_of else None
    return iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal(service, conditions=conditions),
        inline_policies={
            duty: iam.PolicyDocument(statements=[statement])
            for duty, statement in duties.items()
            if statement is not None
        },
    )
