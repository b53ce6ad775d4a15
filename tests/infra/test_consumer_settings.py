"""Construct properties become Settings, and a wrong one is refused by name at synth."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_type_hints

import pytest
import sublet_cdk
from aws_cdk import Duration, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kinesis as kinesis
from sublet.errors import SettingsError
from sublet.settings import HashRangeFilter, Mode, Settings, StartKind, StartPosition
from sublet.settings.keywords import WorkerKeywords
from sublet_cdk.consumer_settings import as_setting, setting_names, settings_of

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN, Build


@pytest.fixture(scope="module")
def stream() -> kinesis.IStream:
    return kinesis.Stream.from_stream_arn(Stack(an_app(), "streams"), "Stream", STREAM_ARN)


def test_the_properties_that_type_checkers_know_are_the_settings_that_it_takes() -> None:
    properties = get_type_hints(WorkerKeywords)
    assert properties.keys() == set(setting_names())
    assert "worker_id" not in properties, "it is for a process"


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("window", timedelta(minutes=5), timedelta(minutes=5)),
        ("window", "5m", timedelta(minutes=5)),
        ("window", Duration.minutes(5), timedelta(minutes=5)),
        ("linger", Duration.millis(1500), timedelta(seconds=1.5)),
        ("mode", Mode.CONTINUOUS, Mode.CONTINUOUS),
        ("mode", "continuous", Mode.CONTINUOUS),
        ("hash_range_filter", "off", HashRangeFilter.OFF),
        ("start_position", "LATEST", StartPosition(StartKind.LATEST)),
        ("worker_count", 3, 3),
        ("worker_count", "3", 3),
        ("fair_share", False, False),
        ("fair_share", "false", False),
    ],
)
def test_a_property_may_be_a_value_its_text_or_a_cdk_duration(name: str, given: object, value: object) -> None:
    assert as_setting(name, given) == value


def test_properties_that_are_not_given_have_the_library_s_defaults(stream: kinesis.IStream) -> None:
    assert settings_of("orders", stream, "a:b", {}, Duration.minutes(15)) == Settings(
        application="orders", stream="orders", stream_arn=STREAM_ARN, handler="a:b"
    )


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("windw", {"windw": "5m"}, "no such setting; did you mean window?"),
    ("tumbling_window", {"tumbling_window": "5m"}, "no such setting; the settings are balance"),
    ("worker_id", {"worker_id": "a"}, "only for a process of your own (sublet run, Consumer)"),
    ("retries", {"retries": "5"}, "no such setting; the settings are balance"),
    ("handler", {"handler": "x:y"}, "no such setting"),
    ("window", {"window": "5"}, "a number and a unit"),
    ("window", {"window": 5}, "a timedelta, or its text"),
    ("worker_count", {"worker_count": True}, "a whole number, or its text"),
    ("window", {"window": "15m"}, "at most 870s: the function's timeout (15m) less window_margin (30s)"),
    ("heartbeat_interval", {"heartbeat_interval": "11s"}, "at most a third of failover_time"),
    ("start_position", {"start_position": "AT_TIMESTAMP:2026-01-31T08:00:00"}, "time zone"),
    ("mode", {"mode": "continous"}, "one of catch_up, continuous"),
]


@pytest.mark.parametrize(
    ("name", "properties", "says"),
    REFUSED,
    ids=[f"{name}={next(iter(p.values()))}" for name, p, _ in REFUSED],
)
def test_a_bad_property_is_refused_by_name(
    stream: kinesis.IStream, name: str, properties: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of("orders", stream, "a:b", properties, Duration.minutes(15))
    assert refused.value.name == name
    assert says in str(refused.value)


def test_an_application_s_name_must_fit_the_state_machine_s(stream: kinesis.IStream) -> None:
    settings_of("x" * 64, stream, "a:b", {}, Duration.minutes(15))
    with pytest.raises(SettingsError, match="at most 64 characters"):
        settings_of("x" * 65, stream, "a:b", {}, Duration.minutes(15))


CONTEXT_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("windw", {"windw": "5m"}, "no such context key; did you mean window?"),
    (
        "tumbling_window",
        {"tumbling_window": "5m"},
        "no such context key; the context keys are alarm_email, alarm_topic_arn",
    ),
    ("batchsize", {"batchsize": "5"}, "did you mean batch_size?"),
    ("worker_id", {"worker_id": "a"}, "only for a process"),
    ("window", {"window": "20m"}, "at most 870s"),
    ("stream_arn", {"stream_arn": "orders"}, "the ARN of a stream"),
    ("architecture", {"architecture": "arm"}, "one of arm64, x86_64"),
    ("removal", {"removal": "delete"}, "one of retain, destroy"),
    ("worker_memory", {"worker_memory": "lots"}, "a whole number"),
    ("worker_memory", {"worker_memory": "256"}, "at least 384 MiB"),
    ("handler", {"handler": "orders:handel"}, "it defines: handle"),
    ("handler_code", {"handler_code": "/nowhere"}, "a directory"),
    ("worker_environment", {"handler_environment": '{"SUBLET_WINDOW": "5m"}'}, "SUBLET_ is for settings"),
]


@pytest.mark.parametrize(("name", "context", "says"), CONTEXT_REFUSED, ids=[str(c) for _, c, _ in CONTEXT_REFUSED])
def test_bad_context_is_refused_by_name(build: Build, name: str, context: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        build(context)
    assert refused.value.name == name
    assert says in str(refused.value)


def test_a_folder_that_is_no_layer_is_refused(build: Build) -> None:
    with pytest.raises(SettingsError, match="setting dependencies_layer = '/nowhere'"):
        build(dependencies_layer="/nowhere")


def test_another_application_s_lease_table_is_refused(build: Build) -> None:
    table = dynamodb.Table.from_table_name(Stack(an_app(), "tables"), "Table", "somebody-else")
    with pytest.raises(SettingsError, match="setting lease_table = 'somebody-else': the table named orders-audit"):
        build(lease_table=table)


def test_completion_shows_the_constructs_before_they_are_loaded() -> None:
    assert "KinesisConsumer" in dir(sublet_cdk)
    assert set(dir(sublet_cdk)) == set(sublet_cdk.__all__)
