"""Roles and their permissions: one role per function, every action spelled out, every resource named.

We do not use CDK's `grant_*` methods of tables and streams, because they grant more than we use (`grant_read` on a
stream includes calls that we never make).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct
from sublet.decisions.load.sketch_places import KEYS_BEGIN_WITH
from sublet.operate.rules.role_needs import LEASE_MANAGER_ON_SIGHTINGS, LEASE_WORKER_ON_SKETCHES
from sublet.settings import KclFleet, Mode, Settings
from sublet_cdk.policy_sizes import check_inline, fit

SKETCHES_ALONE = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{KEYS_BEGIN_WITH}*"]}}
LEASE_MANAGER_ON_REPORTS = ["dynamodb:Scan", "dynamodb:PutItem", "dynamodb:DeleteItem"]
LEASE_MANAGER_ON_KCL_STATE = ["dynamodb:GetItem"]
LEASE_WORKER_ON_REPORTS = ["dynamodb:GetItem", "dynamodb:PutItem"]
"""A lease worker's permissions on the tables in which KCL 3.0 to 3.4 keeps its workers' reports and its state. From 3.5
on these are in the lease table.
"""

READER_ON_TABLES_KEY = ["kms:Decrypt", "kms:DescribeKey"]
ON_TABLES_KEY = [
    *READER_ON_TABLES_KEY,
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
]
"""The permissions on a table's customer-managed key, which DynamoDB uses on behalf of its caller (Developer Guide, "How
Amazon DynamoDB uses AWS KMS")."""

READER_ON_TABLES = ["dynamodb:Scan"]
PROCESS_ON_REPORTS = sorted({*LEASE_MANAGER_ON_REPORTS, *LEASE_WORKER_ON_REPORTS})

LAMBDA_ON_NETWORK = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]
"""The permissions, on any resource, with which Lambda can put a function into a VPC (listed in its Developer Guide)."""

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
"""The permissions with which a process, or a query that holds leases, creates an application's missing tables."""
MAKE_LEASE_TABLE = [*MAKE_TABLE, "dynamodb:UpdateContinuousBackups"]
"""More permissions for the lease table, to enable point-in-time recovery. The sightings table needs none."""
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
"""A pipeline's permissions on the lease table, by the source's option `leases`."""
PIPELINE_ON_SIGHTINGS = {
    "none": [],
    "follow": ["dynamodb:Scan"],
    "hold": [*LEASE_MANAGER_ON_SIGHTINGS, *MAKE_TABLE],
}
PIPELINE_ON_TABLES = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]


def allow(actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def allow_sketches(table_arn: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=LEASE_WORKER_ON_SKETCHES, resources=[table_arn], conditions=SKETCHES_ALONE)


def on_kcl(
    scope: Construct, settings: Settings, reports: Sequence[str], state: Sequence[str]
) -> dict[str, iam.PolicyStatement]:
    """Allows the tables that KCL 3.0 to 3.4 has besides its leases, for consumers that share them and could be assigned
    some.
    """
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
    """Allows writing to an existing log group. Metrics need nothing else: they are log lines in embedded metric
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
    """Adds a role with one inline policy per duty, so that the console shows why it may do something; what is too long
    for these goes into managed policies. `on_behalf_of` is the ARN, with or without a `*`, of the resource for which
    the service may assume the role: by their guides, Step Functions, EventBridge Scheduler and EMR Serverless pass it
    and its account. Lambda does not, but a function's role can only be passed to a function of its own account."""
    conditions = (
        {
            "ArnLike": {"aws:SourceArn": on_behalf_of},
            "StringEquals": {"aws:SourceAccount": Stack.of(scope).account},
        }
        if on_behalf_of
        else None
    )
    inline, managed = fit(scope, duties)
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal(service, conditions=conditions),
        inline_policies={duty: iam.PolicyDocument(statements=[statement]) for duty, statement in inline.items()},
    )
    for policy in _managed(role, managed):
        role.add_managed_policy(policy)
    check_inline(role)
    return role


def _managed(scope: Construct, statements: Sequence[iam.PolicyStatement]) -> list[iam.ManagedPolicy]:
    return [
        iam.ManagedPolicy(scope, f"Streams{number}", statements=[statement])
        for number, statement in enumerate(statements, 1)
    ]


def add_duties(
    scope: Construct, construct_id: str, role: iam.IRole, duties: Mapping[str, iam.PolicyStatement | None]
) -> iam.Policy:
    """Adds the duties to an existing role. A role imported as immutable gets nothing: see `grant_worker`."""
    inline, managed = fit(scope, duties)
    policy = iam.Policy(scope, construct_id, statements=list(inline.values()))
    role.attach_inline_policy(policy)
    for each in _managed(policy, managed):
        role.add_managed_policy(each)
    return policy


def grant(
    grantee: iam.IGrantable,
    actions: Sequence[str],
    *resources: str,
    conditions: Mapping[str, Mapping[str, object]] | None = None,
) -> iam.Grant:
    return iam.Grant.add_to_principal(
        grantee=grantee,
        actions=list(actions),
        resource_arns=list(resources),
        conditions=None if not conditions else {test: dict(values) for test, values in conditions.items()},
    )
