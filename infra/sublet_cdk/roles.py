"""Who may do what: one role for each function, every action spelled out, every resource named.

None of CDK's `grant_*` of tables and streams: they give more than is used (`grant_read` on a stream includes what our
code never calls).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct
from sublet.settings import KclFleet, Mode, Settings

LEASE_MANAGER_ON_LEASES = [
    "dynamodb:Scan",
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",
]
LEASE_MANAGER_ON_SIGHTINGS = ["dynamodb:Scan", "dynamodb:PutItem", "dynamodb:DeleteItem"]
LEASE_MANAGER_ON_STREAM = [
    "kinesis:DescribeStreamSummary",
    "kinesis:ListShards",
    "kinesis:GetShardIterator",
    "kinesis:GetRecords",
]
"""GetRecords: of a shard that nobody reads, one record, to know that it waits. It is looked at for its arrival alone."""
LEASE_WORKER_ON_LEASES = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
LEASE_WORKER_ON_STREAM = [
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
]
"""DescribeStreamSummary: who places the stream's records, asked before an aggregate out of its shard's range is dropped."""

LEASE_MANAGER_ON_REPORTS = ["dynamodb:Scan", "dynamodb:PutItem", "dynamodb:DeleteItem"]
LEASE_MANAGER_ON_KCL_STATE = ["dynamodb:GetItem"]
LEASE_WORKER_ON_REPORTS = ["dynamodb:GetItem", "dynamodb:PutItem"]
"""On the tables in which a KCL from 3.0 to 3.4 keeps its workers' reports, and its state; from 3.5 on that is the lease table."""

READER_ON_TABLES_KEY = ["kms:Decrypt", "kms:DescribeKey"]
ON_TABLES_KEY = [
    *READER_ON_TABLES_KEY,
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
]
"""DynamoDB uses a table's customer-managed key in its caller's name (Developer Guide, "How Amazon DynamoDB uses AWS KMS")."""

READER_ON_TABLES = ["dynamodb:Scan"]
PROCESS_ON_LEASES = sorted({*LEASE_MANAGER_ON_LEASES, *LEASE_WORKER_ON_LEASES})
PROCESS_ON_SIGHTINGS = sorted({*LEASE_MANAGER_ON_SIGHTINGS, "dynamodb:GetItem"})
"""GetItem: a process that is given a stream's name finds its ARN where those before it have found it."""
PROCESS_ON_STREAM = sorted({*LEASE_MANAGER_ON_STREAM, *LEASE_WORKER_ON_STREAM})
PROCESS_ON_REPORTS = sorted({*LEASE_MANAGER_ON_REPORTS, *LEASE_WORKER_ON_REPORTS})
"""A process is manager and worker in one."""

LAMBDA_ON_NETWORK = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]
"""What Lambda needs of a function's role to put it into a VPC, on any resource (its Developer Guide lists them)."""

PIPELINE_ON_STREAM = [
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
]
MAKE_TABLE = [
    "dynamodb:CreateTable",
    "dynamodb:DescribeTable",
    "dynamodb:TagResource",
]
"""For a process, or a query that holds leases, of an application which has no tables yet."""
MAKE_LEASE_TABLE = [*MAKE_TABLE, "dynamodb:UpdateContinuousBackups"]
"""Its point-in-time recovery is switched on; the sightings need none."""
PIPELINE_ON_LEASES = {
    "none": [],
    "follow": ["dynamodb:Scan"],
    "hold": [
        "dynamodb:Scan",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
        *MAKE_LEASE_TABLE,
    ],
}
"""By the source's option `leases`."""
PIPELINE_ON_SIGHTINGS = {
    "none": [],
    "follow": ["dynamodb:Scan"],
    "hold": [*LEASE_MANAGER_ON_SIGHTINGS, *MAKE_TABLE],
}
PIPELINE_ON_TABLES = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]


def allow(actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def on_kcl(
    scope: Construct, settings: Settings, reports: Sequence[str], state: Sequence[str]
) -> dict[str, iam.PolicyStatement]:
    """On the tables that a KCL from 3.0 to 3.4 has beside its leases, for who shares them and would be assigned some."""
    if settings.mode is not Mode.CONTINUOUS or settings.kcl_fleet is KclFleet.V2:
        return {}
    duties = {"worker-reports": (settings.worker_reports_table, reports)}
    if state:
        duties["kcl-state"] = (settings.kcl_state_table, state)
    stack = Stack.of(scope)
    return {
        duty: allow(actions, stack.format_arn(service="dynamodb", resource="table", resource_name=table))
        for duty, (table, actions) in duties.items()
    }


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
    something. `on_behalf_of` is the ARN of what the service may take it for, with or without a `*`: Step Functions,
    EventBridge Scheduler and EMR Serverless say in their guides that they name it and its account. Lambda does
    not; a function's role can be passed to a function of its own account alone.
    """
    conditions = (
        {
            "ArnLike": {"aws:SourceArn": on_behalf_of},
            "StringEquals": {"aws:SourceAccount": Stack.of(scope).account},
        }
        if on_behalf_of
        else None
    )
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


def add_duties(
    scope: Construct, construct_id: str, role: iam.IRole, duties: Mapping[str, iam.PolicyStatement | None]
) -> iam.Policy:
    """The same for a role that there is already. One that was imported as immutable gets nothing: see `grant_worker`."""
    statements = [statement for statement in duties.values() if statement is not None]
    policy = iam.Policy(scope, construct_id, statements=statements)
    role.attach_inline_policy(policy)
    return policy


def grant(grantee: iam.IGrantable, actions: Sequence[str], *resources: str) -> iam.Grant:
    return iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=list(resources))
