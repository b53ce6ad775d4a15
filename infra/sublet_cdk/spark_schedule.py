"""Starts the pipeline's runs: EventBridge Scheduler calls EMR Serverless directly, with a role that may do nothing
else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sublet.errors import SettingsError
from sublet.spark.pipeline.settings import Sink
from sublet_cdk import roles

START_MAX_AGE = Duration.hours(1)
"""A start that has failed for this long goes to the dead-letter queue."""

START_ATTEMPTS = 5

NEVER = "never"
DAILY = "rate(1 day)"
ICEBERG_EXTENSION = "IcebergSparkSessionExtensions"


def maintenance_schedule(
    given: scheduler.ScheduleExpression | str | None, sink: Sink, spark: Mapping[str, str]
) -> scheduler.ScheduleExpression | str | None:
    """When maintenance runs; None: it does not. Raises SettingsError for tables that cannot be maintained."""
    if given == NEVER:
        return None
    if sink is Sink.PARQUET:
        if given is not None:
            raise SettingsError("maintenance", given, "left out: Parquet tables cannot be maintained")
        return None
    if given is None and sink is Sink.ICEBERG and ICEBERG_EXTENSION not in spark.get("spark.sql.extensions", ""):
        return None
    return given or DAILY


def add_schedule(
    scope: Construct,
    construct_id: str,
    expression: scheduler.ScheduleExpression | str,
    start: Mapping[str, Any],
    role: iam.IRole,
    dead_letters: sqs.IQueue,
) -> scheduler.CfnSchedule:
    """`start` is StartJobRun's request. (L1: the L2 would name the IAM action after the SDK's service, whose name is
    different.)"""
    stack, of = Stack.of(scope), scheduler.CfnSchedule
    zone = None if isinstance(expression, str) else expression.time_zone
    target = of.TargetProperty(
        arn=f"arn:{stack.partition}:scheduler:::aws-sdk:emrserverless:startJobRun",
        role_arn=role.role_arn,
        input=stack.to_json_string(start),
        dead_letter_config=of.DeadLetterConfigProperty(arn=dead_letters.queue_arn),
        retry_policy=of.RetryPolicyProperty(
            maximum_event_age_in_seconds=int(START_MAX_AGE.to_seconds()),
            maximum_retry_attempts=START_ATTEMPTS,
        ),
    )
    return of(
        scope,
        construct_id,
        description=f"sublet: runs of the pipeline {start['Name']}",
        schedule_expression=expression if isinstance(expression, str) else expression.expression_string,
        schedule_expression_timezone=zone.timezone_name if zone else None,
        flexible_time_window=of.FlexibleTimeWindowProperty(mode="OFF"),
        target=target,
    )


def add_schedule_role(
    scope: Construct, application_arn: str, job_role: iam.IRole, dead_letters: sqs.IQueue
) -> iam.Role:
    """The role with which the schedules start runs of the application."""
    group = Stack.of(scope).format_arn(service="scheduler", resource="schedule-group", resource_name="default")
    pass_role = roles.allow(["iam:PassRole"], job_role.role_arn)
    pass_role.add_condition("StringEquals", {"iam:PassedToService": "emr-serverless.amazonaws.com"})
    duties = {
        "start-runs": roles.allow(["emr-serverless:StartJobRun"], application_arn),
        "pass-job-role": pass_role,
        "dead-letters": roles.allow(["sqs:SendMessage"], dead_letters.queue_arn),
    }
    return roles.role_of(scope, "ScheduleRole", "scheduler.amazonaws.com", duties, group)
