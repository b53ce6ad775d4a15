"""apply_handler without Spark: what the handler gets, in which order, and what happens to its failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import HandlerNotLoadable, SettingsError
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.handlers.load import handler_of
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import Page, UserRecord
from sublet.protocol.stream_info import Placement
from sublet.settings import HandlerContract, Settings
from sublet.spark import apply_handler
from sublet.spark.plan.strays import StrayFilter
from sublet.spark.read.rows import Rows
from sublet.spark.source.handler_tasks import handle_batches
from sublet.testing.memory import MemoryDestination, MemoryLog, MemoryStream

from tests.spark.memory_query import SleepingClock

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"
SETTINGS = Settings(application="sublet-spark", stream="orders")


def page_of(stream: MemoryStream, shard_id: str) -> Page:
    page = stream.reader(shard_id, ReadPosition(IteratorType.TRIM_HORIZON)).read(10_000)
    assert isinstance(page, Page)
    return page


def run(
    handle: Callable[[Batch], object],
    *batches: pa.RecordBatch,
    log: MemoryLog | None = None,
    settings: Settings = SETTINGS,
    destination: MemoryDestination | None = None,
) -> tuple[list[tuple[object, ...]], timedelta]:
    """The output rows, and for how long it slept."""
    clock = SleepingClock()
    began = clock.now()
    handled = handle_batches(
        HandlerFunctions(handle),
        iter(batches),
        clock,
        clock.sleep,
        log or MemoryLog(),
        settings,
        destination,
    )
    return [tuple(row.values()) for batch in handled for row in batch.to_pylist()], clock.now() - began


@pytest.fixture
def stream() -> MemoryStream:
    stream = MemoryStream(2, clock=SleepingClock(), name="orders")
    for shard in stream.list_shards():
        key = shard.hash_key_range.starting
        stream.put("k", b"plain", key)
        stream.put("k", aggregate([("a", None, b"one"), ("b", str(key), b"two")]), key)
    return stream


def rows_of(stream: MemoryStream, shard_id: str) -> pa.RecordBatch:
    [batch] = Rows("orders", shard_id, StrayFilter(None, Placement())).batches(page_of(stream, shard_id).records)
    return batch


def _alone(record: UserRecord) -> tuple[bytes, str | None, str | None, int]:
    """Without its stream record, whose data Spark's rows do not have."""
    return record.data, record.partition_key, record.explicit_hash_key, record.sub_sequence_number


def test_batches_are_those_of_the_library(stream: MemoryStream) -> None:
    seen: list[Batch] = []
    shards = [shard.shard_id for shard in stream.list_shards()]
    handled, _ = run(seen.append, *(rows_of(stream, shard_id) for shard_id in shards))
    assert [(batch.stream, batch.shard_id) for batch in seen] == [("orders", shard_id) for shard_id in shards]
    for batch in seen:
        expected = deaggregate(page_of(stream, batch.shard_id).records, None).user_records
        assert list(map(_alone, batch.records)) == list(map(_alone, expected))
        assert [r.checkpoint for r in batch.records] == [r.checkpoint for r in expected]
        batch.checkpoint(batch.records[0])
    last = [seen[n].records[-1] for n in (0, 1)]
    assert handled == [("orders", s, 3, r.sequence_number, 1) for s, r in zip(shards, last, strict=True)]


def test_rows_of_two_shards_in_one_arrow_batch_are_two_batches(stream: MemoryStream) -> None:
    tables = [pa.Table.from_batches([rows_of(stream, shard.shard_id)]) for shard in stream.list_shards()]
    both = pa.concat_tables(tables).combine_chunks().to_batches()
    assert len(both) == 1
    seen: list[str] = []
    run(lambda batch: seen.append(batch.shard_id), *both)
    assert seen == [shard.shard_id for shard in stream.list_shards()]


def test_a_batch_that_fails_comes_again_with_backoff(stream: MemoryStream) -> None:
    calls: list[list[bytes]] = []

    def handle(batch: Batch) -> None:
        calls.append([record.data for record in batch.records])
        if len(calls) < 4:
            raise ValueError("not yet")

    handled, slept = run(handle, rows_of(stream, "shardId-000000000000"))
    assert calls == [[b"plain", b"one", b"two"]] * 4
    assert len(handled) == 1
    assert slept == timedelta(seconds=1 + 2 + 4)


def test_each_failure_is_in_the_log_without_what_the_record_holds(stream: MemoryStream) -> None:
    log, rows = MemoryLog(), rows_of(stream, "shardId-000000000000")

    def handle(batch: Batch) -> None:
        raise ValueError(f"cannot handle {batch.records[0].data!r}")

    with pytest.raises(ValueError, match="cannot handle"):
        run(handle, rows, log=log)
    assert log.messages("error") == ["handler failed"] * 5
    [first] = page_of(stream, "shardId-000000000000").records[:1]
    for number, line in enumerate(log.lines, 1):
        assert line.fields["shard_id"] == "shardId-000000000000"
        assert line.fields["first"] == str(Checkpoint(first.sequence_number))
        assert (line.fields["attempt"], line.fields["error"]) == (number, "ValueError")
        assert "test_handling.py" in str(line.fields["frames"])
        assert "plain" not in str(line)


def test_batch_that_keeps_failing_fails_the_task_and_nothing_later_is_handled(stream: MemoryStream) -> None:
    calls: list[str] = []

    def handle(batch: Batch) -> None:
        calls.append(batch.shard_id)
        raise ValueError("never")

    with pytest.raises(ValueError, match="never"):
        run(handle, rows_of(stream, "shardId-000000000000"), rows_of(stream, "shardId-000000000001"))
    assert calls == ["shardId-000000000000"] * 5


def test_the_failure_policy_is_that_of_the_fleet(stream: MemoryStream) -> None:
    destination, done = MemoryDestination(), list[bytes]()

    def handle(batch: Batch) -> None:
        if b"one" in [record.data for record in batch.records]:
            raise ValueError("never")
        done.extend(record.data for record in batch.records)

    settings = replace(SETTINGS, on_failure=QUEUE, maximum_retry_attempts=1, bisect_batch_on_function_error=True)
    rows = rows_of(stream, "shardId-000000000000")
    handled, _ = run(handle, rows, settings=settings, destination=destination)
    assert done == [b"plain", b"two"]
    assert [[record.data for record in kept.records] for kept in destination.taken] == [[b"one"]]
    assert [kept.attempts for kept in destination.taken] == [2]
    assert [row[2] for row in handled] == [2]


def test_task_fails_when_the_destination_refuses_a_batch(stream: MemoryStream) -> None:
    destination = MemoryDestination()
    destination.refusals = 100

    def handle(_: Batch) -> None:
        raise ValueError("never")

    settings = replace(SETTINGS, on_failure=QUEUE, maximum_retry_attempts=0)
    with pytest.raises(ValueError, match="never"):
        run(handle, rows_of(stream, "shardId-000000000000"), settings=settings, destination=destination)


def test_a_checkpoint_counts_within_the_task(stream: MemoryStream) -> None:
    calls: list[list[bytes]] = []

    def handle(batch: Batch) -> None:
        calls.append([record.data for record in batch.records])
        if len(calls) == 1:
            batch.checkpoint(batch.records[0])
            raise ValueError("not yet")

    handled, _ = run(handle, rows_of(stream, "shardId-000000000000"))
    assert calls == [[b"plain", b"one", b"two"], [b"one", b"two"]]
    assert [row[2] for row in handled] == [3]


def test_a_handler_that_is_not_there_is_named_before_anything_is_read() -> None:
    with pytest.raises(HandlerNotLoadable, match="no module nowhere"):
        apply_handler(None, "nowhere:handle")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"handler_contract": "record_processor"}, "handler_contract"),
        ({"checkpointing": "manual"}, "checkpointing"),
        ({"parallelization_factor": "2"}, "parallelization_factor"),
        ({"deaggregate": "false"}, "deaggregate"),
        ({"handler_atempts": 3}, "handler_atempts"),
    ],
)
def test_handler_setting_is_refused_by_name_when_spark_cannot_honour_it(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=f"setting {named} = "):
        apply_handler(None, "json:loads", **settings)


def test_a_batch_tells_how_long_its_call_may_take(stream: MemoryStream) -> None:
    """As on Lambda and in a process, although nothing gives the call up."""
    [shard, _] = stream.list_shards()
    told = list[int]()
    settings = replace(SETTINGS, handler_timeout=timedelta(seconds=10))
    run(
        lambda batch: told.append(batch.remaining_time_in_millis()),
        rows_of(stream, shard.shard_id),
        settings=settings,
    )
    assert told == [10_000]


def test_a_handler_of_lambda_s_event_gets_its_event(stream: MemoryStream) -> None:
    events: list[Any] = []

    def handler(event: Any, context: Any) -> object:
        events.append(event)
        return None

    lambda_event = replace(SETTINGS, handler_contract=HandlerContract.LAMBDA_EVENT)
    [shard, _] = stream.list_shards()
    clock = SleepingClock()
    handled = handle_batches(
        handler_of(handler, lambda_event),
        iter([rows_of(stream, shard.shard_id)]),
        clock,
        clock.sleep,
        MemoryLog(),
        lambda_event,
    )
    assert len(list(handled)) == 1
    plain, first, second = events[0]["Records"]
    number = plain["kinesis"]["sequenceNumber"]
    assert plain["eventID"] == f"{shard.shard_id}:{number}"
    assert second["eventID"].endswith(":1")
    assert len({plain["eventID"], first["eventID"], second["eventID"]}) == 3


def test_a_record_that_filter_criteria_cannot_be_applied_to_is_set_aside_alone() -> None:
    """JSON nested too deeply: otherwise the task would fail for ever."""
    stream, destination = MemoryStream(1, clock=SleepingClock(), name="orders"), MemoryDestination()
    deep = b'{"kind": "order", "n": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for data in (b'{"kind": "order"}', deep, b'{"kind": "order", "n": 2}', b'{"kind": "visit"}'):
        stream.put("k", data)
    criteria = '{"Filters": [{"Pattern": "{\\"data\\": {\\"kind\\": [\\"order\\"]}}"}]}'
    settings = replace(SETTINGS, on_failure=QUEUE, maximum_retry_attempts=1, filter_criteria=criteria)
    seen: list[bytes] = []
    [shard] = stream.list_shards()
    run(
        lambda batch: seen.extend(record.data for record in batch.records),
        rows_of(stream, shard.shard_id),
        settings=settings,
        destination=destination,
    )
    assert seen == [b'{"kind": "order"}', b'{"kind": "order", "n": 2}']
    assert [[record.data for record in kept.records] for kept in destination.taken] == [[deep]]
