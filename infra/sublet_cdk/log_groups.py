"""Creates our log groups. All have a retention, and a key if one is given."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct
from sublet_cdk.places import domain_of

LOGS_ON_KEY = ["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"]
"""The actions that CloudWatch Logs' guide lists, wildcards included."""


@dataclass(frozen=True, slots=True)
class LogKeeping:
    """The retention, and the KMS key; None for CloudWatch's own."""

    retention: logs.RetentionDays
    key: kms.IKey | None = None


def keep_logs(scope: Construct, retention: logs.RetentionDays, key: kms.IKey | None) -> LogKeeping:
    """Lets CloudWatch use the key for logs of the scope's account and region. An imported key's policy cannot be
    changed here, so its owner must add the same statement.
    """
    if key is not None:
        key.add_to_resource_policy(_let_logs_use(Stack.of(scope)))
    return LogKeeping(retention, key)


def add_log_group(scope: Construct, construct_id: str, keeping: LogKeeping, name: str | None = None) -> logs.LogGroup:
    """Adds a log group. CloudFormation chooses the name if none is given."""
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=keeping.retention,
        encryption_key=keeping.key,
        removal_policy=RemovalPolicy.DESTROY,
    )


def _let_logs_use(stack: Stack) -> iam.PolicyStatement:
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"logs.{stack.region}.{domain_of(stack)}")],
        actions=LOGS_ON_KEY,
        resources=["*"],  # in a key's policy: the key
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )
