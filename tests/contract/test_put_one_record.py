"""A record that Kinesis refuses: with the stream's own limit if that is the reason, otherwise in the service's
words.
"""

from __future__ import annotations

from typing import Any

import pytest
from sublet import Context, Stream, StreamError, connect

from tests.contract.scripted_service import Json, ScriptedService, error

OVER = bytes(3 * 2**20)
REFUSED = error("InvalidArgumentException", "record too large")


def summary(**told: object) -> Json:
    return {
        "StreamDescriptionSummary": {
            "StreamName": "orders",
            "StreamARN": "arn:aws:kinesis:us-east-1:123456789012:stream/orders",
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": 24,
            "StreamCreationTimestamp": 1.0e9,
            "OpenShardCount": 1,
            **told,
        }
    }


def test_a_refused_put_names_the_stream_s_largest_record(service: ScriptedService) -> None:
    service.will("PutRecord", REFUSED)
    service.will("DescribeStreamSummary", summary(MaxRecordSizeInKiB=2048))
    with pytest.raises(StreamError, match=r"3,145,729 bytes: its MaxRecordSizeInKiB is 2,048"):
        Stream(connect().account, "orders").put("k", OVER)


def test_max_record_kib_is_updated_only_where_it_differs(service: ScriptedService) -> None:
    service.will("DescribeStreamSummary", summary(MaxRecordSizeInKiB=None), summary(MaxRecordSizeInKiB=2048))
    service.will("UpdateMaxRecordSize", {})
    context = connect()
    context.update_stream("orders", max_record_kib=2048)
    (asked,) = service.asked("UpdateMaxRecordSize")
    assert asked == {
        "StreamARN": "arn:aws:kinesis:us-east-1:123456789012:stream/orders",
        "MaxRecordSizeInKiB": 2048,
    }
    context.update_stream("orders", max_record_kib=2048)
    assert len(service.asked("UpdateMaxRecordSize")) == 1


def test_an_older_boto3_that_cannot_is_named(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    service.will("DescribeStreamSummary", summary())
    account: Any = connect().account
    monkeypatch.delattr(type(account._kinesis), "update_max_record_size", raising=False)
    with pytest.raises(StreamError, match=r"use 1\.40\.60 or later"):
        Context(account).update_stream("orders", max_record_kib=2048)


def test_a_refusal_of_something_else_is_the_services_own(service: ScriptedService) -> None:
    """Even if the stream may not be described, which was not asked for."""
    service.will("PutRecord", REFUSED)
    service.will("DescribeStreamSummary", summary(MaxRecordSizeInKiB=10_240), error("AccessDeniedException"))
    stream = Stream(connect().account, "orders")
    for _ in range(2):
        with pytest.raises(StreamError, match="record too large"):
            stream.put("k", OVER)


def test_a_record_without_a_partition_key_is_put_by_any_boto3(service: ScriptedService) -> None:
    """The models of older ones require a key (tests/package/test_other_boto3.py)."""
    service.will("PutRecord", {"ShardId": "shardId-000000000000", "SequenceNumber": "1"})
    Stream(connect().account, "orders").put(None, b"x")
    (asked,) = service.asked("PutRecord")
    assert asked == {"StreamName": "orders", "Data": "eA=="}
