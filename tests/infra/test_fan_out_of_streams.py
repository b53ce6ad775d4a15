"""`fan_out` with several streams: the stack registers a consumer on each, and its workers find them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Annotations, Match, Template
from sublet.errors import SettingsError
from sublet.settings import Reading, Settings
from sublet_cdk.kinesis_consumer import KinesisConsumer

from tests.infra.apps import an_app, code_and_layer
from tests.infra.conftest import Build
from tests.infra.test_fan_out import MAY, variables
from tests.infra.test_least_privilege import allowed

ELSEWHERE = "arn:aws:kinesis:eu-central-1:210987654321:stream/theirs"
ENV: Any = {"account": "123456789012", "region": "eu-central-1"}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    code, layer = code_and_layer(tmp_path_factory.mktemp("fan-out"))
    return {"handler_code": code, "dependencies_layer": layer}


def stack_of(parts: Mapping[str, Any], **given: Any) -> Stack:
    stack = Stack(an_app(), "several", env=ENV)
    KinesisConsumer(
        stack,
        "Consumer",
        application="orders-audit",
        handler="orders:handle",
        deployment_check=False,
        mode="continuous",
        **{"fan_out": True, **parts, **given},
    )
    return stack


def consumers(template: Template) -> dict[str, Any]:
    return dict(template.find_resources("AWS::Kinesis::StreamConsumer"))


def test_each_stream_has_a_consumer_before_the_worker_is_there(parts: Mapping[str, Any]) -> None:
    stated = "arn:aws:kinesis:eu-central-1:123456789012:stream/returns"
    template = Template.from_stack(stack_of(parts, streams=f"orders,payments@LATEST,{stated},returns"))
    found = consumers(template)
    properties = [each["Properties"] for each in found.values()]
    assert {each["ConsumerName"] for each in properties} == {"orders-audit"}
    streams = sorted(str(each["StreamARN"]).rpartition("/")[2].rstrip("']}") for each in properties)
    assert streams == ["orders", "payments", "returns"]
    assert not [each for each in found.values() if "DeletionPolicy" in each]
    functions = template.find_resources("AWS::Lambda::Function")
    (worker,) = [each for name, each in functions.items() if "LeaseWorker" in name]
    assert set(worker["DependsOn"]) >= found.keys()


def test_worker_finds_consumers_by_the_applications_name(parts: Mapping[str, Any]) -> None:
    of_worker = variables(Template.from_stack(stack_of(parts, streams="orders,payments")), "LeaseWorker")
    settings = Settings.from_environment(
        {name: value for name, value in of_worker.items() if name.startswith("SUBLET_")}
    )
    assert (settings.reading, settings.fan_out_name) == (Reading.FAN_OUT, "orders-audit")


def test_worker_alone_may_subscribe_as_consumers_of_this_name(parts: Mapping[str, Any]) -> None:
    template = Template.from_stack(stack_of(parts, streams="orders,payments"))
    duty = [each for each in allowed(template, "LeaseWorkerRole") if each.duty == "fan-out"]
    assert {each.action for each in duty} == MAY
    ends = {each.resource.rpartition(":stream/")[2] for each in duty}
    assert ends == {"orders/consumer/orders-audit:*", "payments/consumer/orders-audit:*"}
    described = {
        each.resource.rpartition(":stream/")[2]
        for each in allowed(template, "LeaseWorkerRole")
        if each.action == "kinesis:DescribeStreamConsumer" and each.duty == "stream"
    }
    assert described == {"orders", "payments"}
    assert not [each for each in allowed(template, "LeaseManagerRole") if each.action in MAY]


def test_registered_ones_are_used_by_their_name_also_with_patterns_and_tags(parts: Mapping[str, Any]) -> None:
    stack = stack_of(parts, streams=f"audit-*,tag:team=billing,{ELSEWHERE}", fan_out="kcl-fleet")
    template = Template.from_stack(stack)
    assert consumers(template) == {}
    assert variables(template, "LeaseWorker")["SUBLET_FAN_OUT_CONSUMER"] == "kcl-fleet"
    duty = [each for each in allowed(template, "LeaseWorkerRole") if each.duty == "fan-out"]
    ends = {each.resource.rpartition(":stream/")[2] for each in duty}
    assert ends == {f"{name}/consumer/kcl-fleet:*" for name in ("audit-*", "*", "theirs")}


@pytest.mark.parametrize(
    ("streams", "refusal"),
    [
        ("orders,audit-*", r"with audit-\*: streams that are found while running"),
        ("tag:team=billing", "streams that are found while running"),
        (f"orders,{ELSEWHERE}", "a stream of another account registers its consumers there"),
    ],
)
def test_registering_is_refused_for_unlisted_streams_and_other_accounts(
    parts: Mapping[str, Any], streams: str, refusal: str
) -> None:
    with pytest.raises(SettingsError, match=refusal):
        stack_of(parts, streams=streams)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"fan_out": f"{ELSEWHERE}/consumer/kcl-fleet:1795457556"}, "a consumer's name with streams"),
        ({"register_fan_out": True}, "register_fan_out"),
    ],
)
def test_fan_out_of_several_streams_is_refused_with_an_arn_or_register_fan_out(
    parts: Mapping[str, Any], given: dict[str, Any], refusal: str
) -> None:
    with pytest.raises((SettingsError, TypeError), match=refusal):
        stack_of(parts, streams="orders", **given)


def test_synth_notes_the_price_of_fan_out_for_all_streams(parts: Mapping[str, Any]) -> None:
    """A shard's month is 730 hours at $0.015."""
    stack = stack_of(parts, streams="orders,payments,returns")
    price = r"\$11 a month for each shard of 3 streams, \$33 at least"
    assert Annotations.from_stack(stack).find_info("*", Match.string_like_regexp(price))


def test_deployed_stack_takes_fan_out_with_streams(build: Build) -> None:
    """As by `sublet deploy --set streams=orders,payments --set fan_out=true`."""
    context = {"stream_arn": None, "streams": "orders,payments", "mode": "continuous"}
    stack = build({**context, "fan_out": "true"})
    assert len(consumers(Template.from_stack(stack))) == 2
    named = build({**context, "fan_out": "kcl-fleet"})
    assert variables(Template.from_stack(named), "LeaseWorker")["SUBLET_FAN_OUT_CONSUMER"] == "kcl-fleet"
