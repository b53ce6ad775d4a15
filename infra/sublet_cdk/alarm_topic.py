"""Who is notified of an application's alarms: a topic with an address, permission for CloudWatch where a topic has a
policy, and a warning at synth if nobody is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

import jsii
from aws_cdk import Annotations, Aspects, IAspect, Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct, IConstruct
from sublet.errors import SettingsError

NOBODY = "sublet:alarms-notify-nobody"
POLICY = "Policy"
"""The id of the policy in CDK's topics."""


def topic_of(scope: Construct, arn: str | None, email: str | None) -> sns.ITopic | None:
    """An existing topic, or a new one with this address, to which AWS sends a link to click; None without either."""
    if email is None:
        return sns.Topic.from_topic_arn(scope, "Alarms", arn) if arn else None
    if arn is not None:
        raise SettingsError(
            "alarm_email", email, "left out beside alarm_topic_arn; subscribe the address to that topic"
        )
    if not Token.is_unresolved(email) and not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", email):
        raise SettingsError("alarm_email", email, "an address, such as orders-team@example.com")
    topic = sns.Topic(scope, "AlarmTopic", enforce_ssl=True)
    topic.add_subscription(subscriptions.EmailSubscription(email))
    return topic


def let_cloudwatch_publish(topic: sns.ITopic) -> None:
    """A topic's own policy, such as the one of `enforce_ssl`, replaces the default, by which alarms of the account may
    publish ("Amazon SNS and alarms" in CloudWatch's User Guide). A topic without one is left as it is.
    """
    if topic.node.try_find_child(POLICY) is None:
        return
    stack = Stack.of(topic)
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
        )
    )


def warn_of_nobody(scope: Construct, alarms: Iterable[cloudwatch.Alarm]) -> None:
    """Warns at synth, unless the app has given the alarms an action by then."""
    Aspects.of(Construct(scope, "Notified")).add(cast("IAspect", _Notified(scope, [*alarms])))


@jsii.implements(IAspect)
class _Notified:
    def __init__(self, scope: Construct, alarms: list[cloudwatch.Alarm]) -> None:
        self.scope, self.alarms = scope, alarms

    def visit(self, _node: IConstruct) -> None:
        count = sum(not _acts(alarm) for alarm in self.alarms)
        if count:
            Annotations.of(self.scope).add_warning_v2(
                NOBODY,
                f"{count} alarms notify nobody: give alarm_topic a topic that somebody has subscribed to; with `sublet "
                "deploy`, --alarm-email ADDRESS. If something else watches them, acknowledge this warning.",
            )


def _acts(alarm: cloudwatch.Alarm) -> bool:
    made = cast("cloudwatch.CfnAlarm", alarm.node.default_child)
    return bool(Stack.of(alarm).resolve(made.alarm_actions))
