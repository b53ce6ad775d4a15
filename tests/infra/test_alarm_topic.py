"""Somebody is notified of the alarms: by an address, by a topic that CloudWatch may publish to, or synth says so."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Stack, Validations
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError
from sublet_cdk.alarm_topic import NOBODY
from sublet_cdk.monitoring import ConsumerMonitoring

from tests.infra.apps import an_app
from tests.infra.conftest import Build

ADDRESS = "orders-team@example.com"
NOBODYS = Match.string_like_regexp("alarms notify nobody: give alarm_topic.*--alarm-email ADDRESS")


def monitored(stack: Stack, topic: sns.ITopic | None = None) -> ConsumerMonitoring:
    return ConsumerMonitoring(stack, "Monitoring", application="orders", stream="events", alarm_topic=topic)


def warnings(stack: Stack) -> list[Any]:
    return Annotations.from_stack(stack).find_warning("*", NOBODYS)


def publishers(template: Template) -> list[Any]:
    """The statements that let CloudWatch publish to a topic."""
    policies = template.find_resources("AWS::SNS::TopicPolicy").values()
    statements = [each for policy in policies for each in policy["Properties"]["PolicyDocument"]["Statement"]]
    return [each for each in statements if each["Principal"] == {"Service": "cloudwatch.amazonaws.com"}]


def test_address_gets_a_topic_that_cloudwatch_may_publish_to(build: Build) -> None:
    stack = build({"alarm_email": ADDRESS})
    template = Template.from_stack(stack)
    template.has_resource_properties("AWS::SNS::Subscription", {"Protocol": "email", "Endpoint": ADDRESS})
    (topic,) = template.find_resources("AWS::SNS::Topic")
    alarms = template.find_resources("AWS::CloudWatch::Alarm").values()
    assert alarms
    assert all(each["Properties"]["AlarmActions"] == [{"Ref": topic}] for each in alarms)
    (allowed,) = publishers(template)
    assert (allowed["Effect"], allowed["Action"], allowed["Resource"]) == ("Allow", "sns:Publish", {"Ref": topic})
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    assert not warnings(stack)


def test_cdk_nag_finds_nothing_in_an_address_topic(build: Build) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    build({"alarm_email": ADDRESS}, app)
    app.synth()  # raises, and prints the findings, if there are any


@pytest.mark.parametrize("address", ["orders-team", "two words@example.com", "@example.com", "arn:aws:sns:x:1:t"])
def test_text_that_is_no_address_is_refused(build: Build, address: str) -> None:
    with pytest.raises(SettingsError, match=r"alarm_email.*such as orders-team@example\.com"):
        build({"alarm_email": address})


def test_address_beside_a_topic_is_refused(build: Build) -> None:
    topic = "arn:aws:sns:eu-central-1:123456789012:alarms"
    with pytest.raises(SettingsError, match="left out beside alarm_topic_arn"):
        build({"alarm_email": ADDRESS, "alarm_topic_arn": topic})


def test_topic_with_a_policy_lets_cloudwatch_publish_and_another_is_left_alone() -> None:
    """Without its own policy, a topic has the default one, which a statement of ours would replace."""
    stack = Stack(an_app(), "closed")
    monitored(stack, sns.Topic(stack, "Topic", enforce_ssl=True))
    assert len(publishers(Template.from_stack(stack))) == 1
    other = Stack(an_app(), "open")
    monitored(other, sns.Topic(other, "Topic"))
    Template.from_stack(other).resource_count_is("AWS::SNS::TopicPolicy", 0)


def test_grant_that_comes_after_the_alarms_does_not_shut_cloudwatch_out() -> None:
    stack = Stack(an_app(), "granted")
    topic = sns.Topic(stack, "Topic")
    monitored(stack, topic)
    topic.grant_publish(iam.ServicePrincipal("budgets.amazonaws.com"))
    assert len(publishers(Template.from_stack(stack))) == 1


def test_key_of_a_topic_lets_cloudwatch_use_it() -> None:
    stack = Stack(an_app(), "encrypted")
    monitored(stack, sns.Topic(stack, "Topic", master_key=kms.Key(stack, "Key")))
    (key,) = Template.from_stack(stack).find_resources("AWS::KMS::Key").values()
    (allowed,) = (
        each
        for each in key["Properties"]["KeyPolicy"]["Statement"]
        if each["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    )
    assert (allowed["Effect"], allowed["Action"]) == ("Allow", ["kms:Decrypt", "kms:GenerateDataKey*"])


def test_key_of_another_app_is_said_at_synth() -> None:
    stack = Stack(an_app(), "imported")
    monitored(stack, sns.Topic(stack, "Topic", master_key=kms.Alias.from_alias_name(stack, "Key", "alias/aws/sns")))
    Annotations.from_stack(stack).has_warning("*", Match.string_like_regexp("the topic's key is not one of this app"))


def test_alarms_that_notify_nobody_are_said_at_synth() -> None:
    stack = Stack(an_app(), "silent")
    monitored(stack)
    (warning,) = warnings(stack)
    assert NOBODY in str(warning.entry.data)
    told = Stack(an_app(), "told")
    monitored(told, sns.Topic(told, "Topic"))
    assert not warnings(told)


def test_actions_that_the_app_adds_itself_are_seen() -> None:
    stack = Stack(an_app(), "own")
    action = actions.SnsAction(sns.Topic(stack, "Topic"))
    alarms = monitored(stack).alarms
    first, *others = alarms.values()
    first.add_alarm_action(action)
    for alarm in others:
        alarm.add_alarm_action(action)
    assert not warnings(stack)


def test_some_alarms_without_an_action_are_counted() -> None:
    stack = Stack(an_app(), "some")
    alarms = monitored(stack).alarms
    alarms["Lagging"].add_alarm_action(actions.SnsAction(sns.Topic(stack, "Topic")))
    (warning,) = warnings(stack)
    assert f"{len(alarms) - 1} alarms notify nobody" in str(warning.entry.data)
