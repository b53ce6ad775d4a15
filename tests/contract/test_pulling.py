"""A pull consumer over AWS, played by moto: created, pulled from, resumed, and deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
import pytest
from sublet import Consumer, LeaseTableError, StreamError

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
QUICK: dict[str, Any] = {"failover_time": timedelta(seconds=3), "heartbeat_interval": timedelta(seconds=1)}


@pytest.fixture
def kinesis(moto_aws: None) -> Any:
    kinesis = boto3.client("kinesis")
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    for number in range(3):
        kinesis.put_record(StreamName="orders", PartitionKey="a", Data=b"%d" % number)
    return kinesis


def test_acknowledged_record_is_not_fetched_by_the_next_program(kinesis: Any) -> None:
    consumer = Consumer("orders-audit", "orders", **QUICK)
    consumer.create()
    with consumer:
        first, second = consumer.fetch(2)
        assert (first.data, second.data) == (b"0", b"1")
        assert first.ack()
    with Consumer("orders-audit", "orders", **QUICK) as consumer:
        assert [record.data for record in consumer.fetch(2)] == [b"1", b"2"]


def test_pulling_makes_no_consumer(kinesis: Any) -> None:
    with pytest.raises(LeaseTableError):
        Consumer("orders-audit", "orders", **QUICK).next()
    assert boto3.client("dynamodb").list_tables()["TableNames"] == []


def test_a_stream_that_is_not_there_is_named(moto_aws: None) -> None:
    with pytest.raises(StreamError, match="orders"):
        Consumer("orders-audit", "orders", **QUICK).next()
