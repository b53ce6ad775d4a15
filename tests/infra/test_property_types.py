"""A property of the wrong type is refused by name, with the right type."""

from __future__ import annotations

from datetime import timedelta
from inspect import signature
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from sublet.errors import SettingsError
from sublet_cdk import KinesisConsumer, KinesisConsumerService, SparkPipeline
from sublet_cdk.property_types import check_type

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN

NAMED: dict[str, Any] = {"application": "orders-audit", "handler_code": "code", "handler": "orders:handle"}

STREAM = "a construct with aws_cdk.aws_kinesis.IStream, such as Stream.from_stream_arn(...)"

WRONG: list[tuple[Any, str, object, str]] = [
    (KinesisConsumer, "stream", STREAM_ARN, STREAM),
    (KinesisConsumer, "stream", 5, STREAM),
    (KinesisConsumer, "worker_memory", "512", "a whole number"),
    (KinesisConsumer, "worker_memory", True, "a whole number"),
    (KinesisConsumer, "worker_timeout", timedelta(minutes=5), "a value of type aws_cdk.Duration or None"),
    (
        KinesisConsumer,
        "vpc",
        "vpc-12345678",
        "a construct with aws_cdk.aws_ec2.IVpc, such as Vpc.from_lookup(...) or None",
    ),
    (KinesisConsumer, "worker_role", "arn:aws:iam::1:role/a", "such as Role.from_role_arn(...) or None"),
    (KinesisConsumer, "deployment_check", "false", "True or False"),
    (KinesisConsumer, "handler_code", 5, "text or a path"),
    (KinesisConsumer, "worker_layers", "arn:aws:lambda:...", "a value of type collections.abc.Sequence"),
    (KinesisConsumer, "log_retention", 30, "one of RetentionDays.ONE_DAY, RetentionDays.THREE_DAYS"),
    (KinesisConsumerService, "stream", "orders", STREAM),
    (KinesisConsumerService, "memory", "1024", "a whole number"),
    (SparkPipeline, "stream", "orders", STREAM),
    (SparkPipeline, "sink", "parquet", "one of Sink.PARQUET"),
]


def named(construct: Any) -> dict[str, Any]:
    return {name: value for name, value in NAMED.items() if name in signature(construct).parameters}


@pytest.mark.parametrize(
    ("construct", "name", "value", "says"), WRONG, ids=[f"{c.__name__}.{n}={v}" for c, n, v, _ in WRONG]
)
def test_a_property_of_another_type_is_refused_by_its_name(construct: Any, name: str, value: object, says: str) -> None:
    stack = Stack(an_app(), "orders")
    with pytest.raises(SettingsError) as refused:
        construct(stack, "Orders", **{**named(construct), name: value})
    assert (refused.value.name, refused.value.value) == (name, value)
    assert says in str(refused.value)


MEANT = [
    (KinesisConsumer, "alarms_topic", "alarm_topic"),
    (KinesisConsumer, "alarm_actions", "alarm_topic"),
    (KinesisConsumer, "environment", "worker_environment"),
    (KinesisConsumer, "memory", "worker_memory"),
    (KinesisConsumer, "memory_size", "worker_memory"),
    (KinesisConsumer, "timeout", "worker_timeout"),
    (KinesisConsumer, "layers", "worker_layers"),
    (KinesisConsumer, "role", "worker_role"),
    (KinesisConsumer, "reserved_concurrency", "worker_reserved_concurrency"),
    (KinesisConsumer, "removal_policy", "lease_table_removal"),
    (KinesisConsumer, "max_records", "poll_limit"),
    (KinesisConsumer, "windw", "window"),
    (KinesisConsumerService, "memory_limit_mib", "memory"),
    (KinesisConsumerService, "desired_count", "min_tasks"),
    (SparkPipeline, "schemas", "schema"),
]


@pytest.mark.parametrize(("construct", "name", "meant"), MEANT, ids=[f"{c.__name__}.{n}" for c, n, _ in MEANT])
def test_misspelt_property_gets_the_property_meant(construct: Any, name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=rf"no such property; did you mean {meant}\?") as refused:
        construct(Stack(an_app(), "orders"), "Orders", **{**named(construct), name: {"PASSWORD": "secret"}})
    assert "secret" not in str(refused.value)


def test_property_unlike_any_other_gets_the_list() -> None:
    with pytest.raises(SettingsError, match="no such property; the properties are alarm_thresholds"):
        KinesisConsumer(Stack(an_app(), "orders"), "Orders", **{**NAMED, "tumbling": 1})


def test_property_type_check_takes_tokens_and_constructs() -> None:
    vpc = ec2.Vpc(Stack(an_app(), "network"), "Vpc")
    check_type("text", vpc.vpc_id, str)
    check_type("number", Duration.minutes(5), Duration | None)
    check_type("stream", kinesis.Stream(Stack(an_app(), "orders"), "Stream"), kinesis.IStream)
    check_type("stream", None, kinesis.IStream | None)
