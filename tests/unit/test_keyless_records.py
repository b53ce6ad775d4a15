"""A record that was put without a partition key, on its way through each part that uses keys."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sublet.aws.kinesis.put_records import entry_of
from sublet.decisions.session.record_filter import RecordFilter
from sublet.errors import StreamError
from sublet.handler import Batch
from sublet.handlers.kinesis_event import kinesis_event
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.failure_document import SetAsideBatch, messages
from sublet.protocol.failure_document_read import batch_of_message
from sublet.protocol.finished_ahead import lanes_of
from sublet.protocol.records import NewRecord, StreamRecord, UserRecord, why_not_put
from sublet.protocol.stream_info import RecordDistribution
from sublet.settings import Settings
from sublet.testing import batch, consume
from sublet.testing.memory import MemoryStream

from tests.doubles.engine_world import EngineWorld
from tests.doubles.pulled import PulledWorld

AT = datetime(2026, 9, 23, tzinfo=UTC)
SHARD = "shardId-000000000000"


def keyless(number: int, data: bytes = b"{}") -> UserRecord:
    return deaggregate([StreamRecord(str(number), data, None, AT)], None).user_records[0]


def test_a_handler_is_given_none() -> None:
    world = EngineWorld()
    world.shards.distribution = RecordDistribution.AUTO
    world.shards.put(None, b"without")
    world.shards.put("key", b"with")
    world.window()
    given = [record.partition_key for batch in world.handler.batches for record in batch.records]
    assert given == [None, "key"]


def test_a_users_tests_put_some() -> None:
    """By `batch`, `consume` and `MemoryConsumer`."""
    given: list[str | None] = []

    def handle(of: Batch) -> None:
        given.extend(record.partition_key for record in of.records)

    handle(batch([(None, b"without"), ("key", b"with")]))
    consume(handle, [(None, b"without"), ("key", b"with")])
    assert given == [None, "key"] * 2


def test_an_event_source_mappings_handler_is_given_null() -> None:
    [record] = kinesis_event(SHARD, [keyless(101)], "arn:aws:kinesis:eu-west-1:1:stream/s", "role")["Records"]
    assert record["kinesis"]["partitionKey"] is None


def test_an_aggregate_without_a_key_has_user_records_with_theirs() -> None:
    data = aggregate([("a", None, b"1"), ("b", None, b"2")])
    found = deaggregate([StreamRecord("7", data, None, AT)], None).user_records
    assert [each.partition_key for each in found] == ["a", "b"]


def test_keyless_records_are_spread_over_all_lanes() -> None:
    lanes = lanes_of([keyless(number) for number in range(64)], 4)
    assert len(lanes) == 4, "spread over all of them"


def test_a_failure_document_keeps_that_it_has_none() -> None:
    batch = SetAsideBatch(
        "app",
        "orders",
        None,
        SHARD,
        (keyless(101),),
        "RetryAttemptsExhausted",
        3,
        AT,
        "holder",
        "orders:handle",
    )
    [message] = messages(batch)
    [record] = batch_of_message(message.body).records
    assert record.partition_key is None


def test_filter_criteria_find_it_by_null() -> None:
    wanted = RecordFilter(
        Settings(
            application="app",
            stream="orders",
            filter_criteria='{"Filters": [{"Pattern": "{\\"partitionKey\\": [null]}"}]}',
        )
    )
    given = [keyless(1), UserRecord(b"{}", "key", 0, StreamRecord("2", b"{}", "key", AT))]
    assert [each.partition_key for each in wanted.wanted(given, {}).records] == [None]


def test_keyless_record_is_put_without_a_partition_key() -> None:
    assert entry_of(NewRecord(b"x", None)) == {"Data": b"x"}
    assert why_not_put(b"x", None, None, may_be_keyless=True) is None
    assert why_not_put(b"x", None, None) == "partitionKey is None; 1 to 256 characters that UTF-8 can encode"


def test_a_stream_that_places_records_by_their_keys_takes_none_without() -> None:
    with pytest.raises(StreamError, match="accepts no record without a partition key"):
        MemoryStream().put(None, b"x")


def test_keyless_record_put_back_holds_no_other_back() -> None:
    world = PulledWorld(shards=1)
    world.stream.distribution = RecordDistribution.AUTO
    for text in (b"first", b"second"):
        world.stream.put(None, text)
    with world.consumer() as consumer:
        first, second = consumer.fetch(2)
        assert (first.partition_key, second.partition_key) == (None, None)
        first.nak()
        second.ack()
        again = consumer.next()
        assert again is not None
        assert (again.data, again.attempt) == (b"first", 2)
        again.ack()
