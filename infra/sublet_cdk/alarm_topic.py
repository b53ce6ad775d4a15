"""Who is notified of an application's alarms: a topic with an address, permission for CloudWatch where a topic has a
policy or a key, and a warning at synth if nobody is.
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
KEY_UNSEEN = "sublet:alarm-topic-key"
KEY_ACTIONS = ["kms:Decrypt", "kms:GenerateDataKey*"]
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
    """By the topic's policy, if it has one at synth, and by its KMS key ("Amazon SNS and alarms" in CloudWatch's User
    Guide, "Securing Amazon SNS data with server-side encryption" in the SNS Developer Guide). CloudWatch tells nobody
    of a message that it could not publish.
    """
    Aspects.of(topic).add(cast("IAspect", _LetsPublish(topic)))
    key = getattr(topic, "master_key", None)
    if key is not None and not key.add_to_resource_policy(_allow(KEY_ACTIONS, "*")).statement_added:
        Annotations.of(topic).add_warning_v2(
            KEY_UNSEEN,
            "the topic's key is not one of this app. Alarms notify nobody unless its policy lets "
            f"cloudwatch.amazonaws.com call {' and '.join(KEY_ACTIONS)}; that of alias/aws/sns cannot.",
        )


@jsii.implements(IAspect)
class _LetsPublish:
    """A topic's own policy, such as the one of `enforce_ssl` or of a grant, replaces the default, by which alarms of
    the account may publish. A grant may come after the alarms. A topic without a policy is left as it is.
    """

    def __init__(self, topic: sns.ITopic) -> None:
        self._topic = topic
        self._is_done = False

    def visit(self, _node: IConstruct) -> None:
        if self._is_done or self._topic.node.try_find_child(POLICY) is None:
            return
        self._is_done = True
        statement = _allow(["sns:Publish"], self._topic.topic_arn)
        statement.add_condition("StringEquals", {"aws:SourceAccount": Stack.of(self._topic).account})
        self._topic.add_to_resource_policy(statement)


def _allow(actions: list[str], resource: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")], actions=actions, resources=[resource]
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
