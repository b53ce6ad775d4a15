"""A handler in a user's test: the whole engine, and no waiting."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sublet import Batch, Checkpoint, Mode
from sublet.errors import HandlerContractBroken, HandlerNotLoadable, SettingsError
from sublet.protocol.aggregation import aggregate
from sublet.testing import MemoryConsumer, consume

MINUTE = timedelta(minutes=1)


class Remembering:
    """A handler that keeps what it is told, and fails at first if asked to."""

    def __init__(self, failures: int = 0) -> None:
        self.data: list[bytes] = []
        self.told: list[str] = []
        self.failures = failures

    def handle(self, batch: Batch) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise LookupError("not now")
        self.data += [record.data for record in batch.records]

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint) -> None:
        self.told.append(f"acquired {shard_id[-1]} at {checkpoint}")

    def lease_releasing(self, shard_id: str) -> None:
        self.told.append(f"releasing {shard_id[-1]}")

    def shard_ended(self, shard_id: str) -> None:
        self.told.append(f"ended {shard_id[-1]}")


def test_every_record_is_handled_and_checkpointed() -> None:
    handler = Remembering()
    done = consume(handler, [b"a", ("customer-7", b"b"), b"c"], shards=2)
    assert sorted(handler.data) == [b"a", b"b", b"c"]
    assert done.checkpoints.keys() == {"shardId-000000000000", "shardId-000000000001"}
    for batch in done.batches:
        assert done.checkpoints[batch.shard_id] == batch.records[-1].checkpoint
    assert done.retries == 0


def test_records_of_one_key_come_in_order() -> None:
    handler = Remembering()
    sent = [b"%d" % number for number in range(50)]
    consume(handler, [("customer-7", data) for data in sent], shards=4, batch_size=7)
    assert handler.data == sent


def test_aggregates_are_taken_apart() -> None:
    handler = Remembering()
    consume(handler, [("k", aggregate([("k", None, b"a"), ("k", None, b"b")]))])
    assert handler.data == [b"a", b"b"]


def test_minutes_of_backoff_take_no_time() -> None:
    handler, began = Remembering(failures=4), time.perf_counter()
    done = consume(handler, [b"a"], handler_backoff=30 * timedelta(seconds=1))
    assert (handler.data, done.retries) == ([b"a"], 4)
    assert done.elapsed >= 2 * MINUTE
    assert time.perf_counter() - began < done.elapsed.total_seconds() / 2
    assert [batch.attempt for batch in done.batches] == [1, 2, 3, 4, 5]


def test_memory_consumer_raises_the_error_of_a_handler_that_keeps_failing() -> None:
    with pytest.raises(LookupError, match="not now") as failed:
        consume(Remembering(failures=99), [b"a"], handler_attempts=3)
    assert failed.value.__notes__ == ["raised by the handler's handle, for shardId-000000000000"]


def test_memory_consumer_raises_the_error_of_lease_releasing() -> None:
    class Unflushable(Remembering):
        def lease_releasing(self, shard_id: str) -> None:
            raise OSError(f"disk full, flushing {shard_id}")

    with pytest.raises(OSError, match="disk full"):
        consume(Unflushable(), [b"a"])


def fail_the_test(_: Batch) -> None:
    pytest.fail("seen by pytest")


def test_a_failing_test_fails_at_once() -> None:
    with pytest.raises(pytest.fail.Exception, match="seen by pytest"):
        consume(fail_the_test, [b"a"])


def test_a_handler_that_breaks_the_contract_gets_an_error() -> None:
    def never_run(batch: Batch) -> Iterator[None]:
        yield

    with pytest.raises(HandlerNotLoadable):
        consume(never_run, [b"a"])  # type: ignore[arg-type] # type checkers see it too
    call: Callable[[Batch], Any] = lambda batch: never_run(batch)  # noqa: E731, PLW0108 - seen only when called
    with pytest.raises(HandlerContractBroken):
        consume(call, [b"a"])


QUEUE = "arn:aws:sqs:us-east-1:123456789012:given-up"


def never(_: Batch) -> None:
    raise ValueError("never")


def test_a_record_set_aside_last_is_done_and_reported() -> None:
    def handle(batch: Batch) -> None:
        if any(record.data == b"2" for record in batch.records):
            raise ValueError("two")

    done = consume(
        handle,
        [b"1", b"2"],
        on_failure=QUEUE,
        maximum_retry_attempts=1,
        bisect_batch_on_function_error=True,
    )
    (aside,) = done.set_aside
    assert [record.data for record in aside.records] == [b"2"]
    assert (aside.condition, aside.attempts) == ("RetryAttemptsExhausted", 2)
    assert aside.failure is not None
    assert aside.failure.type == "ValueError"
    assert done.checkpoints[aside.shard_id] == aside.records[-1].checkpoint


def test_attempts_beyond_one_window_take_more_windows() -> None:
    done = consume(never, [b"1"], on_failure=QUEUE, maximum_retry_attempts=12, handler_attempts=5)
    assert [aside.attempts for aside in done.set_aside] == [13]
    assert done.retries == 13


def test_records_grow_old_until_they_are_set_aside() -> None:
    done = consume(never, [b"1"], on_failure=QUEUE, maximum_record_age=timedelta(hours=1))
    assert [aside.condition for aside in done.set_aside] == ["RecordAgeExceeded"]
    assert done.elapsed > timedelta(hours=1)


def test_handler_that_checkpoints_all_before_it_raises_has_not_failed() -> None:
    def handle(batch: Batch) -> None:
        batch.checkpoint(batch.records[-1])
        raise ValueError("after all was done")

    assert consume(handle, [b"1"]).retries == 1


def test_memory_consumer_raises_the_error_of_shard_ended_despite_on_failure() -> None:
    class Endless(Remembering):
        def shard_ended(self, shard_id: str) -> None:
            raise OSError(f"cannot end {shard_id}")

    consumer = MemoryConsumer(shards=1, on_failure=QUEUE, maximum_retry_attempts=1)
    consumer.put(b"a")
    consumer.consume(Remembering())
    consumer.stream.split("shardId-000000000000")
    with pytest.raises(OSError, match="cannot end"):
        consumer.consume(Endless())


def test_a_second_go_tells_its_own_and_the_consumer_all() -> None:
    consumer = MemoryConsumer(shards=1, on_failure=QUEUE, maximum_retry_attempts=0)
    consumer.destination.refusals = 2
    for data in (b"a", b"b"):
        consumer.put(data)
        assert [record.data for aside in consumer.consume(never).set_aside for record in aside.records] == [data]
    assert [record.data for aside in consumer.set_aside for record in aside.records] == [b"a", b"b"]


@pytest.mark.parametrize("given", ["text", 5, ("key", "text"), (b"key", b"data"), ("key", b"data", 1)])
def test_input_that_is_no_record_is_refused(given: Any) -> None:
    with pytest.raises(
        TypeError, match=r"record 1 is of type .*: give bytes, or a tuple of a str \(or None\) and bytes"
    ):
        consume(print, [b"fine", given])


@pytest.mark.parametrize("shards", [0, -1])
def test_a_stream_has_a_shard(shards: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        consume(print, [b"fine"], shards=shards)


def test_settings_are_checked() -> None:
    with pytest.raises(SettingsError, match="handler_attempts"):
        consume(print, [b"a"], handler_attempts=0)


@pytest.mark.parametrize("mode", Mode)
def test_consume_ends_in_both_modes_without_records(mode: Mode) -> None:
    assert consume(print, [], shards=3, mode=mode).batches == ()


def test_a_handler_of_a_module_is_found_by_its_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "found_handler.py").write_text("def handle(batch): batch.checkpoint(batch.records[0])")
    done = consume("found_handler:handle", [b"a"])
    assert len(done.batches) == 1
    del sys.modules["found_handler"]


def test_step_by_step_through_a_reshard(memory_consumer: MemoryConsumer) -> None:
    """The fixture that pytest finds by itself."""
    consumer, handler = memory_consumer, Remembering()
    consumer.put(("k", b"a"))
    consumer.consume(handler)
    for shard in [shard for shard in consumer.stream.list_shards() if shard.is_open]:
        consumer.stream.split(shard.shard_id)
    consumer.put(("k", b"b"))
    consumer.clock.advance(MINUTE)
    done = consumer.consume(handler)
    assert handler.data == [b"a", b"b"]
    assert {"ended 0", "ended 1"} < set(handler.told)
    assert [str(done.checkpoints[key]) for key in sorted(done.checkpoints)][:2] == ["SHARD_END"] * 2


def test_memory_consumer_repeats_nothing_in_a_second_consume() -> None:
    consumer, handler = MemoryConsumer(shards=1), Remembering()
    consumer.put(b"a")
    consumer.consume(handler)
    consumer.put(b"b")
    assert len(consumer.consume(handler).batches) == 1
    assert handler.data == [b"a", b"b"]


def test_memory_consumer_redrives_set_aside_records() -> None:
    """By a handler that can do some of it by now."""
    bad = {b"b", b"d"}
    handled: list[tuple[bytes, bool]] = []

    def handle(batch: Batch) -> None:
        if bad & {record.data for record in batch.records}:
            raise ValueError("bad")
        handled.extend((record.data, batch.is_redrive) for record in batch.records)

    consumer = MemoryConsumer(
        maximum_retry_attempts=0, batch_size=1, on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up"
    )
    consumer.put(b"a", b"b", b"c", b"d")
    assert len(consumer.consume(handle).set_aside) == 2
    bad.remove(b"b")
    done = consumer.redrive(handle)
    assert (done.done, done.failed) == (1, 1)
    bad.clear()
    assert consumer.redrive(handle).done == 1
    assert handled == [(b"a", False), (b"c", False), (b"b", True), (b"d", True)]


def test_a_call_may_say_its_handler_s_contract() -> None:
    """As the error asks for it that a handler of another contract raises."""
    seen: list[str] = []

    def of_a_mapping(event: dict[str, Any], context: object) -> None:
        del context
        seen.extend(record["kinesis"]["partitionKey"] for record in event["Records"])

    consumer = MemoryConsumer(shards=1)
    consumer.put(("a", b"1"))
    with pytest.raises(HandlerNotLoadable, match="set handler_contract=lambda_event"):
        consumer.consume(of_a_mapping)
    consumer.consume(of_a_mapping, handler_contract="lambda_event")
    assert seen == ["a"]
