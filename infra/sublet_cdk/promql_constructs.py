"""The PromQL alarms' constructs: CDK's own where it has one (aws-cdk-lib 2.254 at the latest), and CloudFormation's
resource with an older CDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct
from sublet_cdk.alarm_kinds import Alarm
from sublet_cdk.alarm_pace import AlarmThresholds
from sublet_cdk.alarms import Watched, alarm_text, has_math, pace_of
from sublet_cdk.promql import EVALUATED_EACH, PromQLAlarm, promql_alarms

CONTRIBUTORS = (
    " This alarm's contributors name application, stream and shard: `aws cloudwatch describe-alarm-contributors "
    "--alarm-name` and its name."
)


def add_promql_alarms(
    scope: Construct, watched: Watched, thresholds: AlarmThresholds, topic: sns.ITopic | None
) -> Mapping[str, Construct]:
    """Create the alarms that name a shard. Each notifies `topic` when it fires and when it is over. Emulators without
    metric math have none.
    """
    if not has_math(scope):
        return {}
    pace, on_lambda = pace_of(watched.deployment, thresholds), watched.deployment is not None
    found = promql_alarms(pace, thresholds, watched.application, on_lambda=on_lambda)
    return {alarm.name: _made(scope, alarm, alarm_text(scope, _told(alarm), watched), topic) for alarm in found}


def _told(alarm: PromQLAlarm) -> Alarm:
    return replace(alarm.of, then=f"{alarm.of.then}{CONTRIBUTORS}")


def _made(scope: Construct, alarm: PromQLAlarm, text: str, topic: sns.ITopic | None) -> Construct:
    if not hasattr(cloudwatch, "PromQLAlarm"):
        return _resource(scope, alarm, text, [] if topic is None else [topic.topic_arn])
    made = cloudwatch.PromQLAlarm(
        scope,
        alarm.name,
        query=alarm.query,
        evaluation_interval=Duration.seconds(EVALUATED_EACH.total_seconds()),
        pending_period=Duration.seconds(alarm.pending.total_seconds()),
        recovery_period=Duration.seconds(alarm.recovery.total_seconds()),
        alarm_description=text,
    )
    if topic is not None:
        made.add_alarm_action(actions.SnsAction(topic))
        made.add_ok_action(actions.SnsAction(topic))
    return made


def _resource(scope: Construct, alarm: PromQLAlarm, text: str, told: Sequence[str]) -> Construct:
    """The same resource, with the same id. An older CDK requires what a PromQL alarm must not have.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudwatch-alarm.html
    """
    within = Construct(scope, alarm.name)
    made = cloudwatch.CfnAlarm(
        within,
        "Resource",
        comparison_operator="GreaterThanThreshold",
        evaluation_periods=1,
        alarm_description=text,
        alarm_actions=[*told] or None,
        ok_actions=[*told] or None,
    )
    for required in ("ComparisonOperator", "EvaluationPeriods"):
        made.add_property_deletion_override(required)
    criteria = {
        "Query": alarm.query,
        "PendingPeriod": int(alarm.pending.total_seconds()),
        "RecoveryPeriod": int(alarm.recovery.total_seconds()),
    }
    made.add_property_override("EvaluationCriteria.PromQLCriteria", criteria)
    made.add_property_override("EvaluationInterval", int(EVALUATED_EACH.total_seconds()))
    return within
