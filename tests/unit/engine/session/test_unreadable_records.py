"""A record whose content cannot be handed over follows the failure policy, and the records around it are handled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.session.record_filter import RecordFault, apart
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.session import records as record_making
from sublet.metric_names import Metric
from sublet.protocol.aggregation import Deaggregation, MayDrop, aggregate, deaggregated
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import Settings

from tests.doubles.engine_world import NO_WAITING, SECOND, EngineWorld, only, raising
from tests.doubles.user_records import batch_of

ORDERS = json.dumps({"Filters": [{"Pattern": '{"data": {"kind": ["order"]}}'}]})
FILTERED = replace(NO_WAITING, filter_criteria=ORDERS)
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"
GIVES_UP = replace(FILTERED, on_failure=QUEUE, maximum_retry_attempts=1)
DEEP = '{"kind": "order", "n": ' + "[" * 100_000 + "]" * 100_000 + "}"
"""JSON, but nested too deep for Python to read."""


def order(number: int) -> str:
    return json.dumps({"kind": "order", "n": number})


def data(*numbers: int) -> list[bytes]:
    return [order(number).encode() for number in numbers]


@pytest.mark.parametrize("bisect", [False, True])
@pytest.mark.parametrize("factor", [1, 4])
@pytest.mark.parametrize("deaggregate", [False, True])
def test_record_that_filter_criteria_cannot_read_is_set_aside_alone(
    bisect: bool, factor: int, deaggregate: bool
) -> None:
    settings = replace(
        GIVES_UP,
        bisect_batch_on_function_error=bisect,
        parallelization_factor=factor,
        deaggregate=deaggregate,
    )
    world = EngineWorld(settings)
    numbers = world.put(order(0), order(1), DEEP, '{"kind": "visit"}', order(2))
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert sorted(world.handler.data()) == data(0, 1, 2)
    (kept,) = world.destination.taken
    assert [record.data for record in kept.records] == [DEEP.encode()]
    assert kept.failure is not None
    assert (kept.condition, kept.attempts, kept.has_raised) == ("RetryAttemptsExhausted", 2, True)
    assert kept.failure.type == "RecordUnreadable"
    assert world.table.lease().checkpoint.sequence_number == numbers[-1]


def test_unreadable_record_is_retried_and_logged_without_a_limit() -> None:
    world = EngineWorld(replace(FILTERED, handler_attempts=3))
    numbers = world.put(order(0), DEEP, order(1))
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    assert world.handler.data() == data(0)
    assert world.table.lease().checkpoint.sequence_number == numbers[0]
    assert world.metrics.values(Metric.HANDLER_ATTEMPTS) == [1, 2, 3]
    assert sum(world.metrics.values(Metric.HANDLER_FAILURES)) == 3
    told = [line.fields for line in world.log.lines if line.message == "handler failed"]
    assert {(line["first"], line["error"]) for line in told} == {(numbers[1], "RecordUnreadable")}
    assert "decoder.py" in str(told[0]["frames"])
    assert all(line["frames"] == told[0]["frames"] for line in told), "as long for each attempt"


def test_unreadable_record_beyond_maximum_age_is_set_aside_without_a_call() -> None:
    world = EngineWorld(replace(GIVES_UP, maximum_record_age=timedelta(minutes=1)))
    world.put(DEEP)
    world.clock.advance(61 * SECOND)
    world.put(order(1))
    world.window()
    assert [kept.condition for kept in world.destination.taken] == ["RecordAgeExceeded"]
    assert world.handler.data() == data(1)


@pytest.mark.parametrize("digits", [4_300, 5_000])
def test_number_of_more_digits_than_python_reads_is_matched(digits: int) -> None:
    criteria = json.dumps({"Filters": [{"Pattern": '{"data": {"n": [{"numeric": [">", 1]}]}}'}]})
    world = EngineWorld(replace(NO_WAITING, filter_criteria=criteria))
    world.put('{"n": ' + "9" * digits + "}", '{"n": -' + "9" * digits + "}")
    world.window()
    assert world.handler.data() == [b'{"n": ' + b"9" * digits + b"}"]


# Deaggregation, of which no bytes are known that it raises on


def breaking(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, at: Callable[[StreamRecord], bool], fault: Exception
) -> None:
    def made(
        stream_records: tuple[StreamRecord, ...], inside: KeysInside | None, at_once: int, may_drop: MayDrop
    ) -> Iterator[Deaggregation]:
        def checked() -> Iterator[StreamRecord]:
            for record in stream_records:
                if at(record):
                    raise fault
                yield record

        return deaggregated(checked(), inside, at_once, may_drop)

    monkeypatch.setattr(record_making, "deaggregated", made)


@pytest.mark.parametrize("batch_size", [1, 3, 100])
@pytest.mark.parametrize("settings", [NO_WAITING, FILTERED])
def test_an_aggregate_that_cannot_be_taken_apart_is_set_aside_whole(
    monkeypatch: pytest.MonkeyPatch, batch_size: int, settings: Settings
) -> None:
    world = EngineWorld(replace(settings, on_failure=QUEUE, maximum_retry_attempts=0, batch_size=batch_size))
    whole = [aggregate([("a", None, order(10 * n + sub).encode()) for sub in range(3)]) for n in range(4)]
    for each in whole:
        world.shards.put("key", each, 0)
    breaking(world, monkeypatch, lambda record: record.data == whole[2], KeyError("a bug"))
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == data(0, 1, 2, 10, 11, 12, 30, 31, 32)
    (kept,) = world.destination.taken
    assert [record.data for record in kept.records] == [whole[2]]


def test_half_handled_aggregate_that_becomes_unreadable_ends_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its rest would be passed over: the window ends by the fault, and says where."""
    world = EngineWorld(replace(NO_WAITING, on_failure=QUEUE, maximum_retry_attempts=0))
    number = world.shards.put("key", aggregate([("a", None, b"1"), ("a", None, b"2")]), 0)
    world.handler.script = lambda batch: (batch.checkpoint(batch.records[0]), raising(ValueError())())  # type: ignore[assignment]
    world.settings = replace(world.settings, handler_attempts=1, on_failure=None, maximum_retry_attempts=-1)
    world.window()
    before = world.table.lease().checkpoint
    breaking(world, monkeypatch, lambda _: True, KeyError("a bug"))
    with pytest.raises(KeyError, match="a bug"):
        world.window()
    assert world.table.lease().checkpoint == before
    (line,) = [line for line in world.log.lines if line.message.startswith("unexpected error")]
    assert line.fields["shard_id"] == world.table.lease().shard_id
    assert (line.fields["position"], line.fields["error"]) == (number, "KeyError")


def test_unplanned_fault_is_logged_with_shard_and_position_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which an alarm goes by (LeasesFailing)."""
    world = EngineWorld(NO_WAITING)
    numbers = world.put("a", "b")
    world.window()
    world.put("c")
    breaking(world, monkeypatch, lambda _: True, MemoryError())
    with pytest.raises(MemoryError):
        world.window()
    (line,) = [line for line in world.log.lines if line.message.startswith("unexpected error")]
    assert line.fields["shard_id"] == world.table.lease().shard_id
    assert (line.fields["position"], line.fields["error"]) == (numbers[1], "MemoryError")
    assert sum(world.metrics.values(Metric.LEASES_FAILED)) == 1
    assert world.table.lease().lease_owner is None


# The cut


@given(st.lists(st.booleans(), max_size=12))
def test_each_record_with_a_fault_is_a_batch_of_its_own(has_fault: list[bool]) -> None:
    records: list[UserRecord] = list(batch_of(*(b"x" for _ in has_fault)).records) if has_fault else []
    faults: dict[Any, RecordFault] = {
        record.checkpoint: RecordFault("looking at it", ValueError())
        for record, is_one in zip(records, has_fault, strict=True)
        if is_one
    }
    batches = list(apart(records, faults))
    assert [record for batch in batches for record in batch] == records
    for batch in batches:
        assert batch
        assert len(batch) == 1 or not any(record.checkpoint in faults for record in batch)
    assert len(batches) <= 2 * len(faults) + 1
