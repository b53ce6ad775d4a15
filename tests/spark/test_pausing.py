"""A query that holds leases, while an operator pauses and resumes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.errors import LeaseHeldElsewhere
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.control import Control, Order, Pause
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import acquire
from sublet.testing.memory import MemoryLeaseTable, MemoryStream

from tests.spark.held_query import HeldQuery
from tests.spark.memory_query import Row, SleepingClock, WatchedStream
from tests.spark.test_follow import shard_id

SECOND = timedelta(seconds=1)
WITHIN = 11


def held_query(shards: int = 1) -> HeldQuery:
    clock = SleepingClock()
    stream = WatchedStream(MemoryStream(shards, clock=clock, name="orders"), clock)
    return HeldQuery(stream, clock, MemoryLeaseTable())


def pause(held: HeldQuery, *shards: int) -> None:
    ordered = Pause(Order.DRAIN, held.query.clock.now(), "anna@desk")
    leases = {shard_id(shard): ordered for shard in shards}
    stands = held.control.control().round
    assert held.control.keep_control(Control(None if shards else ordered, leases, stands))


def resume(held: HeldQuery) -> None:
    assert held.control.keep_control(Control(round=held.control.control().round))


def put(held: HeldQuery, *data: bytes) -> list[str]:
    return [held.query.stream.inner.put(each.decode(), each, explicit_hash_key=0) for each in data]


def lease(held: HeldQuery, shard: int = 0) -> Lease:
    row = held.table.get(shard_id(shard))
    assert isinstance(row, Lease)
    return row


def seconds_pass(held: HeldQuery, seconds: int = WITHIN) -> None:
    """Without a batch: the keeper's own checks."""
    for _ in range(seconds):
        held.query.clock.sleep(SECOND)
        held.keeper.work()


def batches(held: HeldQuery, seconds: int = 30) -> list[bytes]:
    rows: list[Row] = []
    for _ in range(seconds):
        held.query.clock.sleep(SECOND)
        held.keeper.work()
        rows += held.batch() or []
    return [row.data for row in rows]


def test_paused_leases_are_checkpointed_and_released_and_read_on_when_resumed() -> None:
    held = held_query()
    numbers = put(held, b"1", b"2")
    assert batches(held, 5) == [b"1", b"2"]
    pause(held)
    put(held, b"3")
    rows = batches(held, WITHIN)
    released = lease(held)
    assert released.lease_owner is None
    assert batches(held, 60) == []
    assert released.checkpoint >= Checkpoint(numbers[-1])
    resume(held)
    assert rows + batches(held) == [b"3"]
    assert lease(held).lease_owner is not None


def test_a_batch_under_way_keeps_its_leases_until_spark_has_committed_it() -> None:
    held = held_query()
    (number,) = put(held, b"1")
    while not held.query.plan():
        held.query.clock.sleep(SECOND)
        held.keeper.work()
    pause(held)
    seconds_pass(held, 30)
    assert lease(held).lease_owner is not None
    rows = held.run()
    assert len(rows) == 1
    seconds_pass(held, 60)
    assert lease(held).lease_owner is None
    assert lease(held).checkpoint == Checkpoint(number)


def test_a_lease_paused_while_a_plan_looks_is_released_after_its_batch() -> None:
    held = held_query()
    put(held, b"1")
    held.at_the_next_look(lambda: pause(held))
    assert held.query.plan()
    assert lease(held).lease_owner is not None
    assert len(held.run()) == 1
    seconds_pass(held)
    assert lease(held).lease_owner is None


def test_a_lease_paused_while_a_plan_finds_nothing_is_released_at_once() -> None:
    held = held_query()
    assert batches(held, 3) == []
    held.at_the_next_look(lambda: pause(held))
    assert not held.query.plan()
    assert lease(held).lease_owner is not None
    held.keeper.work()
    assert lease(held).lease_owner is None


def test_query_reads_other_shards_on_while_one_is_paused() -> None:
    held = held_query(2)
    assert batches(held, 3) == []
    pause(held, 0)
    seconds_pass(held)
    put(held, b"paused")
    held.query.stream.inner.put("k", b"read", explicit_hash_key=2**128 - 1)
    assert batches(held, 20) == [b"read"]
    assert lease(held, 0).lease_owner is None
    resume(held)
    assert batches(held) == [b"paused"]


def test_a_query_that_starts_while_all_is_paused_reads_nothing() -> None:
    held = held_query()
    pause(held)
    put(held, b"1")
    assert batches(held, 30) == []
    resume(held)
    assert batches(held, 40) == [b"1"]


def test_a_repeated_batch_waits_for_paused_leases_until_they_are_resumed() -> None:
    held = held_query()
    put(held, b"1")
    assert held.query.plan()
    held.end()
    pause(held)
    clock, sleep = held.query.clock, held.query.clock.sleep
    resumed_at = clock.now() + timedelta(hours=1)

    def sleep_and_resume(pause: timedelta) -> None:
        is_before = clock.now() < resumed_at
        sleep(pause)
        if is_before and clock.now() >= resumed_at:
            resume(held)

    clock.sleep = sleep_and_resume  # type: ignore[method-assign]
    held.start()
    assert [row.data for row in held.run()] == [b"1"]
    assert resumed_at <= clock.now() < resumed_at + 30 * SECOND
    [told] = [each for each in held.query.memory_log.lines if "paused" in each.message]
    assert told.fields == {"leases": f"{shard_id(0)} by nobody at TRIM_HORIZON (paused by anna@desk)"}


def test_a_repeated_batch_that_others_hold_too_fails_and_names_the_paused_leases_apart() -> None:
    held = held_query(2)
    put(held, b"1")
    held.query.stream.inner.put("k", b"2", explicit_hash_key=2**128 - 1)
    assert held.query.plan()
    held.end()
    pause(held, 1)
    held.table.apply(acquire(lease(held).fence, "fleet", "fleet"))
    sleep = held.query.clock.sleep

    def sleep_and_beat(pause: timedelta) -> None:
        sleep(pause)
        theirs = lease(held)
        held.table.put_row(encode_row(replace(theirs, lease_counter=theirs.lease_counter + 1)))

    held.query.clock.sleep = sleep_and_beat  # type: ignore[method-assign]
    held.start()
    theirs, paused = f"{shard_id(0)} by fleet at TRIM_HORIZON", f"{shard_id(1)} by nobody at TRIM_HORIZON"
    with pytest.raises(LeaseHeldElsewhere, match=rf"{theirs}, {paused} \(paused by anna@desk\).*resume what is paused"):
        held.run()
