"""`fan_out`: the stack registers a consumer, only its workers may subscribe with it, and synth says what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk.assertions import Annotations, Match, Template
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError
from sublet.settings import Reading, Settings
from sublet_cdk.fan_out import consumer_of

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN, Build
from tests.infra.test_least_privilege import a_service, allowed, granted

CONSUMER = f"{STREAM_ARN}/consumer/kcl-fleet:1795457556"
MAY = {"kinesis:DescribeStreamConsumer", "kinesis:SubscribeToShard"}
FITTING: dict[str, Any] = {"mode": "continuous", "fan_out": True}


def registered(template: Template) -> str:
    """The logical id of the only registered consumer."""
    (name,) = template.find_resources("AWS::Kinesis::StreamConsumer")
    return name


def variables(template: Template, function: str) -> dict[str, Any]:
    functions = template.find_resources("AWS::Lambda::Function")
    (found,) = [each for name, each in functions.items() if function in name]
    stated: dict[str, Any] = found["Properties"]["Environment"]["Variables"]
    return stated


def test_a_consumer_is_registered_and_its_workers_get_its_arn(build: Build) -> None:
    template = Template.from_stack(build(**FITTING))
    template.has_resource_properties(
        "AWS::Kinesis::StreamConsumer", {"ConsumerName": "orders-audit", "StreamARN": STREAM_ARN}
    )
    of_worker = variables(template, "LeaseWorker")
    assert of_worker["SUBLET_FAN_OUT_CONSUMER"] == {"Fn::GetAtt": [registered(template), "ConsumerARN"]}
    settings = Settings.from_environment(
        {name: value for name, value in of_worker.items() if name.startswith("SUBLET_")}
        | {"SUBLET_FAN_OUT_CONSUMER": CONSUMER}
    )
    assert settings.reading is Reading.FAN_OUT


def test_consumer_is_deregistered_with_the_stack(build: Build) -> None:
    template = Template.from_stack(build(**FITTING))
    (consumer,) = template.find_resources("AWS::Kinesis::StreamConsumer").values()
    assert "DeletionPolicy" not in consumer, "CloudFormation's own default is to delete it"


def test_worker_alone_may_subscribe_as_this_consumer(build: Build) -> None:
    template = Template.from_stack(build(**FITTING))
    duty = [each for each in allowed(template, "LeaseWorkerRole") if each.duty == "fan-out"]
    assert {each.action for each in duty} == MAY
    assert {each.resource for each in duty} == {f"{STREAM_ARN}/consumer/{registered(template)}:1795457556"}
    assert not [each for each in allowed(template, "LeaseManagerRole") if each.action in MAY]


@pytest.mark.parametrize("grant", ["grant_worker", "grant_process"])
def test_a_grantee_may_subscribe_too(build: Build, grant: str) -> None:
    stack = build(**FITTING)
    getattr(stack.consumer, grant)(iam.Role(stack, "Theirs", assumed_by=iam.AccountRootPrincipal()))
    found = {each.action for each in granted(Template.from_stack(stack), "Theirs")}
    assert found >= MAY


def test_registered_consumer_is_used_as_it_is(build: Build) -> None:
    template = Template.from_stack(build(mode="continuous", fan_out=CONSUMER))
    template.resource_count_is("AWS::Kinesis::StreamConsumer", 0)
    assert variables(template, "LeaseWorker")["SUBLET_FAN_OUT_CONSUMER"] == CONSUMER
    assert {each.resource for each in allowed(template, "LeaseWorkerRole") if each.action in MAY} == {CONSUMER}


def test_stack_without_fan_out_registers_no_consumer_and_may_not_subscribe(build: Build) -> None:
    template = Template.from_stack(build())
    template.resource_count_is("AWS::Kinesis::StreamConsumer", 0)
    assert not [each for each in allowed(template, "LeaseWorkerRole") if each.action in MAY]


def test_a_created_streams_consumer_is_its_own(build: Build) -> None:
    template = Template.from_stack(build({"stream_arn": None, "shards": "4"}, **FITTING))
    (stream,) = template.find_resources("AWS::Kinesis::Stream")
    template.has_resource_properties("AWS::Kinesis::StreamConsumer", {"StreamARN": {"Fn::GetAtt": [stream, "Arn"]}})


@pytest.mark.parametrize(
    ("context", "price"),
    [
        ({"stream_arn": None, "shards": "4"}, r"\$44 a month for its 4 shards"),
        ({}, r"\$11 a month for each shard"),
    ],
)
def test_synth_notes_the_price_of_fan_out(build: Build, context: dict[str, Any], price: str) -> None:
    """A shard's month is 730 hours at $0.015."""
    stack = build(context, **FITTING)
    assert Annotations.from_stack(stack).find_info("*", Match.string_like_regexp(price))
    assert not Annotations.from_stack(build()).find_info("*", Match.string_like_regexp("Fan-out"))


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"fan_out": True}, "only with mode=continuous: a catch_up window"),
        ({"fan_out": True, "mode": "continuous", "window": "50s", "window_margin": "5s"}, "at least 1m"),
        (
            {"fan_out": CONSUMER.replace("orders", "others"), "mode": "continuous"},
            "a consumer of the stream orders",
        ),
        ({"fan_out": "kcl-fleet", "mode": "continuous"}, "the ARN of a consumer"),
    ],
)
def test_invalid_fan_out_is_refused_at_synth(build: Build, given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(SettingsError, match=refusal):
        build(**given)


def test_a_stream_of_another_account_registers_its_consumers_there() -> None:
    env: Any = {"account": "210987654321", "region": "eu-central-1"}
    stack, settings = Stack(an_app(), "here", env=env), Settings(application="orders-audit", stream="orders")
    stream = kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN)
    with pytest.raises(SettingsError, match="a stream of another account registers its consumers there"):
        consumer_of(stack, settings, stream, True)
    assert consumer_of(stack, settings, stream, CONSUMER) == CONSUMER


def test_service_registers_a_consumer_too(tmp_path: Path) -> None:
    template = Template.from_stack(a_service(tmp_path, fan_out=True))
    duty = [each for each in allowed(template, "TaskRole") if each.duty == "fan-out"]
    assert {each.action for each in duty} == MAY
    template.has_resource_properties(
        "AWS::ECS::TaskDefinition",
        {
            "ContainerDefinitions": Match.array_with(
                [
                    Match.object_like(
                        {
                            "Environment": Match.array_with(
                                [
                                    {
                                        "Name": "SUBLET_FAN_OUT_CONSUMER",
                                        "Value": {"Fn::GetAtt": [registered(template), "ConsumerARN"]},
                                    },
                                ]
                            )
                        }
                    )
                ]
            )
        },
    )


def test_cdk_nag_finds_nothing(build: Build) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    build({"stream_arn": None, "shards": "2", "fan_out": "true", "mode": "continuous"}, app)
    app.synth()  # raises, and prints the findings, if there are any
