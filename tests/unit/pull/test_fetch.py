"""fetch and next, by the letter of ADR-37, over the whole engine in memory and in simulated time."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from itertools import islice, pairwise
from threading import Barrier
from typing import Any

import pytest
from sublet import Consumer, SettingsError
from sublet.decisions.status.shard_status import ShardState
from sublet.decisions.status.work_distribution import GroupLoad, WorkerLoad
from sublet.pull.group import Group
from sublet.pull.record import Record
from sublet.testing.memory import MemoryStream, memory_ports
from sublet.testing.memory.failure_destination import MemoryDestination

from tests.doubles.pulled import SECOND, PulledWorld


def data(records: Iterable[Record]) -> list[str]:
    return [record.data.decode() for record in records]


def test_fetch_ends_at_its_count() -> None:
    world = PulledWorld()
    world.put(["a1", "b1", "c1"])
    with world.consumer() as consumer:
        assert data(consumer.fetch(2)) == ["a1", "b1"]
        assert data(consumer.fetch(1)) == ["c1"]


def test_fetch_ends_at_its_expiry_with_what_came() -> None:
    world = PulledWorld()
    world.put(["a1"])
    with world.consumer() as consumer:
        began = world.clock.steady()
        assert data(consumer.fetch(5, expires=10)) == ["a1"]
        assert world.clock.steady() - began == 10 * SECOND


def test_fetch_ends_before_its_bytes_are_exceeded() -> None:
    world = PulledWorld()
    world.put(["a11", "b11", "c11"])
    with world.consumer() as consumer:
        assert data(consumer.fetch(max_bytes=9)) == ["a11", "b11"]


def test_records_come_while_it_waits() -> None:
    world = PulledWorld()
    with world.consumer() as consumer:
        fetch = consumer.fetch(1, expires=20)
        world.put_later(5, ["a1"])
        began = world.clock.steady()
        assert data(fetch) == ["a1"]
        assert world.clock.steady() - began < 10 * SECOND


@pytest.mark.parametrize("later", [0.1, 0.4, 0.7, 1.0, 1.3, 1.6, 1.9])
def test_short_fetch_gets_a_record_of_a_shard_polled_less_often(later: float) -> None:
    world = PulledWorld()
    with world.consumer(idle_poll_interval=timedelta(seconds=2)) as consumer:
        world.sleep(30 + later)
        world.put(["a1"])
        assert data(consumer.fetch(1, expires=1)) == ["a1"]


def test_quiet_shard_is_polled_each_second_during_fetches_and_slower_without() -> None:
    world = PulledWorld(shards=3)
    polls = world.watched_polls()
    with world.consumer() as consumer:
        world.sleep(30)
        began = world.clock.steady()
        for _ in range(40):
            assert consumer.next(expires=1) is None
        asked, after = polls.copy(), world.clock.steady()
        world.sleep(30)
        for shard in {shard for _, shard in polls}:
            moments = [at for at, polled in asked if polled == shard and at >= began]
            assert all(second - first >= SECOND for first, second in pairwise(moments))
            assert len(moments) >= 35
            quiet = [at for at, polled in polls if polled == shard and at > after + 2 * SECOND]
            assert all(second - first >= 2 * SECOND for first, second in pairwise(quiet))


def test_consumer_asks_for_nothing_before_next_is_called() -> None:
    world = PulledWorld()
    world.put(["a1", "b1"])
    with world.consumer() as consumer:
        world.sleep(5)
        assert consumer._group.entered is not None
        assert consumer._group.entered.buffer.buffered.records == 0
        record = consumer.next()
        assert record is not None
        assert record.data == b"a1"


def test_next_is_none_when_nothing_comes_in_time() -> None:
    with PulledWorld().consumer() as consumer:
        assert consumer.next(expires=1) is None


def test_consumer_checkpoints_acknowledged_records_and_releases_at_its_end() -> None:
    world = PulledWorld()
    world.put(["a1", "b1", "c1"])
    with world.consumer() as consumer:
        first, second, third = consumer.fetch(3)
        assert third.ack()
        assert first.ack()
    assert world.checkpoints["shardId-000000000000"] == first.user_record.checkpoint
    assert world.owners == {None}
    assert not second.ack()


def test_a_record_that_was_not_acknowledged_comes_again_to_the_next() -> None:
    world = PulledWorld()
    world.put(["a1", "b1", "c1"])
    with world.consumer() as consumer:
        first, _, third = consumer.fetch(3)
        first.ack()
        third.ack()
    with world.consumer() as consumer:
        assert data(consumer.fetch(2)) == ["b1", "c1"]


def test_fetch_outside_with_releases_after_the_last_ack() -> None:
    world = PulledWorld()
    world.put(["a1", "b1"])
    records = list(world.consumer().fetch(2))
    world.sleep(3)
    assert world.owners != {None}
    for record in records:
        record.ack()
    world.sleep(3)
    assert world.owners == {None}
    assert world.checkpoints["shardId-000000000000"] == records[-1].user_record.checkpoint


def test_fetch_outside_with_releases_unacknowledged_records_after_expires() -> None:
    world = PulledWorld()
    world.put(["a1"])
    (record,) = world.consumer().fetch(1, expires=5)
    world.sleep(4)
    assert world.owners != {None}
    world.sleep(4)
    assert world.owners == {None}
    assert not record.ack()


def test_fetch_outside_with_releases_its_lease_when_the_iterator_is_abandoned() -> None:
    world = PulledWorld()
    world.put(["a1", "b1", "c1"])
    complete = world.consumer().fetch(1)
    next(complete).ack()
    world.sleep(3)
    assert world.owners == {None}  # all that it gave was acknowledged
    begun = world.consumer().fetch(3, expires=5)
    assert next(begun).data == b"b1"
    world.sleep(15)
    assert world.owners == {None}
    assert list(begun) == []


def test_closing_a_fetch_outside_with_releases_at_once() -> None:
    world = PulledWorld()
    world.put(["a1", "b1"])
    with world.consumer().fetch(2) as records:
        assert next(records).ack()
    assert world.owners == {None}
    assert data(world.consumer().fetch(1)) == ["b1"]


def test_fetch_outside_with_never_steals() -> None:
    world = PulledWorld(shards=2)
    world.put(["a1", "b1", "c1", "d1"])
    with world.consumer(worker_id="first") as first:
        assert len(list(first.fetch(4))) == 4
        assert data(world.consumer(worker_id="second").fetch(1, expires=60)) == []
        assert world.owners == {"first"}


def test_a_fetch_needs_a_maximum_and_a_consumer_with_a_handler_is_not_pulled_from() -> None:
    world = PulledWorld()
    with pytest.raises(SettingsError, match="max_records"):
        world.consumer().fetch()
    with pytest.raises(SettingsError, match="handler"):
        world.consumer(handler=lambda _batch: None).fetch(1)
    with pytest.raises(SettingsError, match="handler"):
        world.consumer().run()


def test_repeated_waits_leave_no_waiter_behind() -> None:
    world = PulledWorld()
    with world.consumer(ack_wait=SECOND) as consumer:
        world.put(["a0"])
        assert consumer.next(expires=1) is not None
        for _ in range(5):
            consumer.next(expires=1)  # comes again, and is not acknowledged again
        assert consumer._group.entered is not None
        assert not consumer._group.entered.buffer._waiters


def test_concurrent_first_uses_of_a_consumer_share_one_group() -> None:
    consumer = Consumer("orders", "events", ports=memory_ports(MemoryStream(1, name="events")))
    together = Barrier(8)

    def group(_: int) -> Group:
        together.wait()
        return consumer._group

    with ThreadPoolExecutor(8) as threads:
        assert len(set(map(id, threads.map(group, range(8))))) == 1


def test_nak_redelivers_a_record_after_its_delay_and_later_ones_of_its_key() -> None:
    world = PulledWorld()
    world.put(["a1", "b1", "a2"])
    with world.consumer() as consumer:
        first, other, follower = consumer.fetch(3)
        assert first.nak(timedelta(seconds=7))
        assert not follower.ack()
        assert other.ack()
        began = world.clock.steady()
        again = list(consumer.fetch(2))
        assert [(record.data, record.attempt) for record in again] == [(b"a1", 2), (b"a2", 1)]
        assert world.clock.steady() - began == 7 * SECOND


def test_a_forgotten_record_comes_again_after_ack_wait() -> None:
    world = PulledWorld()
    world.put(["a1"])
    with world.consumer(ack_wait=timedelta(seconds=60)) as consumer:
        forgotten = consumer.next()
        assert forgotten is not None
        assert consumer.next(expires=50) is None
        again = consumer.next(expires=20)
        assert again is not None
        assert again.attempt == 2
        assert not forgotten.ack()
        assert again.ack()


def test_term_is_refused_without_a_failure_destination() -> None:
    world = PulledWorld()
    world.put(["a1"])
    with world.consumer() as consumer:
        record = consumer.next()
        assert record is not None
        with pytest.raises(SettingsError, match=r"on_failure.*SQS queue.*Without it, ack\(\) gives the record up"):
            record.term("poison")
        assert record.ack()


def test_term_returns_true_once_the_destination_has_the_record() -> None:
    world = PulledWorld()
    world.put(["a1"])
    ports, destination = world.ports(), MemoryDestination()
    destination.refusals = 1
    queue = "arn:aws:sqs:eu-west-1:123456789012:failed"
    with world.consumer(replace(ports, destination=destination), on_failure=queue) as consumer:
        record = consumer.next()
        assert record is not None
        assert not record.term("poison")
        assert record.term("poison")
        assert not record.term("poison")
    (batch,) = destination.taken
    assert batch.records == (record.user_record,)
    assert world.checkpoints["shardId-000000000000"] == record.user_record.checkpoint


def test_attempts_restart_with_the_next_owner() -> None:
    """They are counted by the program that put the record back, and stand in no table."""
    world = PulledWorld()
    world.put(["a1"])
    attempts = []
    for worker_id in ("first", "second"):
        with world.consumer(worker_id=worker_id) as consumer:
            for record in islice(consumer.messages(), 3):
                attempts.append(record.attempt)
                record.nak()
    assert attempts == [1, 2, 3, 1, 2, 3]


def test_a_record_and_its_consumer_stay_in_their_process() -> None:
    world = PulledWorld()
    world.put(["a1"])
    with world.consumer() as consumer:
        record = consumer.next()
        assert record is not None
        for send in (pickle.dumps, deepcopy):
            with pytest.raises(TypeError, match="send its data, or its user_record, to the other process"):
                send(record)
            with pytest.raises(TypeError, match="make one in the other process"):
                send(consumer)
        assert pickle.loads(pickle.dumps(record.user_record)) == record.user_record  # noqa: S301 - our own


def test_children_come_after_all_of_their_parent_is_acknowledged() -> None:
    world = PulledWorld()
    world.put(["a1", "b1"])
    with world.consumer() as consumer:
        records = list(consumer.fetch(2))
        world.stream.split("shardId-000000000000")
        world.put(["a2", "b2"])
        assert list(consumer.fetch(2, expires=30)) == []
        for record in records:
            record.ack()
        assert sorted(data(consumer.fetch(2, expires=60))) == ["a2", "b2"]


@pytest.mark.parametrize("window", ["14m", "1m"])
def test_a_program_that_leaves_an_ended_shard_unacknowledged_has_not_failed(window: str) -> None:
    """Nobody called a handler of its own, and the next owner gets the records again."""
    world = PulledWorld()
    world.put(["a1"])
    with world.consumer(window=window, window_margin="10s") as consumer:
        record = consumer.next()
        world.stream.split("shardId-000000000000")
        world.sleep(90)
    assert [line for line in world.log.lines if line.level == "error"] == []
    [shard] = [each for each in consumer.info().shards if each.shard_id == "shardId-000000000000"]
    assert (shard.failing, shard.is_ended) == (None, False)
    with world.consumer() as consumer:
        again = consumer.next(expires=60)
        assert record is not None
        assert again is not None
        assert again.data == record.data


def test_info_tells_how_the_application_stands() -> None:
    world = PulledWorld(shards=2)
    world.put(["a1"])
    with world.consumer(worker_id="first") as consumer:
        record = consumer.next()
        assert record is not None
        world.sleep(5)
        status = consumer.info()
        assert status.workers == {"first": 2}
        distribution = consumer.distribution(cached=True)
        assert distribution.workers == (WorkerLoad("first", "first", 2, None, timedelta(seconds=4)),)
        assert distribution.groups == (GroupLoad("first", 1, 2, 2.0, None),)
        record.ack()
    assert consumer.info(cached=True) is status
    assert consumer.info().states == {ShardState.UNOWNED: 2}
    assert record.user_record.checkpoint in {shard.checkpoint for shard in consumer.info().shards}


def test_fetches_outside_of_with_follow_each_other_at_once() -> None:
    world = PulledWorld()
    world.put(f"a{number}" for number in range(9))
    consumer, began = world.consumer(), world.clock.steady()
    seen = [record.data.decode() for _ in range(3) for record in consumer.fetch(3) if record.ack()]
    assert seen == [f"a{number}" for number in range(9)]
    assert world.clock.steady() - began < 2 * SECOND


def test_calls_outside_of_with_that_overlap_share_a_stay() -> None:
    world = PulledWorld(shards=2)
    world.put(["a1", "b1", "c1", "d1"])
    consumer, began = world.consumer(), world.clock.steady()
    messages = consumer.messages()
    first, second, third = consumer.next(), next(messages), consumer.next()
    messages.close()
    assert world.clock.steady() - began < 2 * SECOND
    assert first is not None
    assert third is not None
    assert len({record.data for record in (first, second, third)}) == 3
    assert world.owners != {None}
    assert [record.ack() for record in (first, second, third)] == [True] * 3
    world.sleep(3)
    assert world.owners == {None}


def test_with_block_takes_over_the_leases_of_a_lingering_fetch() -> None:
    world = PulledWorld(shards=2)
    world.put(["a1", "b1"])
    fast: dict[str, Any] = {"failover_time": timedelta(seconds=6), "heartbeat_interval": SECOND}
    consumer = world.consumer(worker_id="second", **fast)
    with world.consumer(worker_id="first", **fast) as first:
        record = first.next()
        assert record is not None
        assert record.ack()
        fetch = consumer.fetch(1, expires=60)
        world.sleep(20)
        assert world.owners == {"first"}
        with consumer:
            world.sleep(60)
            assert world.owners == {"first", "second"}
        fetch.close()
