"""Prefetched records: any change to which record comes next applies to them too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice

import pytest
from sublet.decisions.pull.pull_request import fetch_of
from sublet.pull.buffer import Buffer
from sublet.pull.prefetch import Delivery
from sublet.pull.pull_state import LookAgain, PullRequest
from sublet.pull.refill import BufferLimits
from sublet.pull.shard_queue import ends_of

from tests.doubles.buffer_world import MINUTE, BufferWorld
from tests.doubles.pulled import PulledWorld


def data(deliveries: list[Delivery]) -> list[str]:
    return [one.record.data.decode() for one in deliveries]


def test_prefetched_records_stay_in_the_buffer_until_taken() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "a1")
    pull = table.messages()
    assert table.ask(pull).record.data == b"a0"
    assert data(list(pull.prefetched)) == ["b0", "a1"]
    assert table.buffer.buffered.records == 2  # nothing of it is taken yet
    pull.prefetched.popleft()
    assert table.buffer.buffered.records == 1


def test_a_record_that_is_taken_is_out() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "a1")
    pull = table.messages()
    table.ask(pull)
    second = pull.prefetched.popleft()
    assert table.buffer.ack(second)
    assert not table.buffer.ack(second)
    assert data(list(pull.prefetched)) == ["a1"]  # an ack ends no prefetch


def test_nak_holds_back_later_records_of_its_key() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "a1", "a2")
    pull = table.messages()
    first = table.ask(pull)
    second = pull.prefetched.popleft()
    third = pull.prefetched.popleft()
    assert table.buffer.nak(first, 10)
    assert not pull.prefetched
    assert not table.buffer.ack(third)
    assert table.buffer.ack(second)
    assert table.rest(pull) == []
    table.tasks.sleep(timedelta(seconds=10))
    assert table.rest(pull) == ["a0", "a1", "a2"]


def test_buffer_prefetches_nothing_while_a_key_waits() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "a1", "c0")
    pull = table.messages()
    assert table.buffer.nak(table.ask(pull), 10)
    assert table.ask(pull).record.data == b"b0"
    assert not pull.prefetched  # it would hold a1, which waits for a0
    assert table.ask(pull).record.data == b"c0"


def test_another_pull_gets_the_records_that_were_not_taken_in_order() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "a1", "a2", "c0")
    pull = table.messages()
    table.ask(pull)
    pull.prefetched.popleft()
    fetch = PullRequest(fetch_of(1, None))
    table.buffer.begin(fetch)
    assert not pull.prefetched
    assert table.ask(fetch).record.data == b"a1"
    assert table.ask(pull).record.data == b"a2"
    assert not pull.prefetched  # with two requests open there is none


def test_a_shard_s_turn_ends_and_the_next_one_has_its_own() -> None:
    table = BufferWorld()
    table.offer("first", "a0", "a1", "a2")
    table.offer("second", "b0", "b1", "b2")
    pull = table.messages()
    assert table.rest(pull) == ["a0", "b0", "a1", "b1", "a2", "b2"]  # none takes prefetched records


def test_auto_ack_finishes_all_records_before_the_last_taken() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "a1", "a2")
    pull = table.messages(acks=True)
    table.ask(pull)
    for _ in range(2):
        last = pull.prefetched.popleft()
    table.buffer.checkpoint()
    assert table.checkpointed == {"shard": "b0"}
    assert table.buffer.ack(last)
    table.buffer.checkpoint()
    assert table.checkpointed == {"shard": "a1"}


def test_record_put_back_is_not_done_when_the_next_is_asked_for() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "c0", "d0")
    pull = table.messages(acks=True)
    table.ask(pull)
    second = pull.prefetched.popleft()
    assert table.buffer.nak(second, 10)
    assert table.rest(pull) == ["c0", "d0"]
    table.buffer.checkpoint()
    assert table.checkpointed == {"shard": "a0"}


@pytest.mark.parametrize(
    "end",
    [
        lambda buffer, _: buffer.stop(),
        lambda buffer, pull: buffer.end(pull),
        lambda buffer, _: buffer.close_shard("shard"),
        lambda buffer, _: buffer.fail(RuntimeError()),
    ],
)
def test_ended_pull_has_nothing_prefetched(end: Callable[[Buffer, PullRequest], None]) -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "c0")
    pull = table.messages(acks=True)
    table.ask(pull)
    end(table.buffer, pull)
    assert not pull.prefetched


def test_ack_wait_is_of_each_that_was_taken() -> None:
    table = BufferWorld()
    table.offer("shard", "a0", "b0", "c0")
    pull = table.messages()
    first = table.ask(pull)
    second = pull.prefetched.popleft()
    assert table.buffer.ack(first)
    table.tasks.sleep(5 * MINUTE)
    assert table.ask(pull).attempt == 2
    assert not table.buffer.ack(second)


def test_a_prefetch_ends_where_the_buffer_is_to_be_filled_up() -> None:
    table = BufferWorld()
    table.offer("shard", *(f"a{number}" for number in range(30)))
    pull = table.messages(max_records=10)
    table.ask(pull)
    assert len(pull.prefetched) == 3  # nine are left, and at five the buffer is filled up to ten
    table.offer("other", "b0")
    assert table.buffer.buffered.records == 9


def test_buffer_bounds_unfinished_records_by_bytes_and_by_count_per_shard() -> None:
    table = BufferWorld(BufferLimits(max_ack_pending=4, max_bytes=27, ack_wait=MINUTE))
    table.offer("shard", *(f"a{number}" for number in range(30)))
    table.offer("other", *(f"b{number}" for number in range(30)))
    pull = table.messages()
    assert table.buffer.buffered.records == 8
    assert len(table.rest(pull)) == 8
    small = BufferWorld(BufferLimits(max_ack_pending=4, max_bytes=10, ack_wait=MINUTE))
    small.offer("shard", "a0", "b0", "c0", "d0")
    assert small.messages() is not None
    assert small.buffer.buffered.records == 3


def test_buffer_admits_one_record_however_large() -> None:
    table = BufferWorld(BufferLimits(max_ack_pending=4, max_bytes=10, ack_wait=MINUTE))
    table.offer("shard", "a" * 100, "b")
    pull = table.messages()
    large = table.ask(pull)
    assert table.rest(pull) == []
    assert table.buffer.ack(large)
    assert table.rest(pull) == ["b"]


def test_offers_have_the_same_room() -> None:
    table = BufferWorld()
    for shard in ("first", "second", "third"):
        table.offer(shard, *(f"{shard[0]}{number}" for number in range(20)))
    table.tasks.sleep(timedelta(0))  # all of them wait
    pull = table.messages(max_records=12)
    admitted = [table.ask(pull).record.data[:1] for _ in range(6)]
    assert sorted(admitted) == [b"f", b"f", b"s", b"s", b"t", b"t"]


def test_each_offer_has_some_of_the_room_though_there_are_more_of_them_than_places() -> None:
    table = BufferWorld()
    for shard in ("first", "second", "third"):
        table.offer(shard, *(f"{shard[0]}{number}" for number in range(5)))
    table.tasks.sleep(timedelta(0))
    assert table.rest(table.messages(max_records=2)) == [
        *("f0", "s0", "t0", "f1", "s1", "t1", "f2", "s2", "t2", "f3", "s3", "t3", "f4", "s4", "t4")
    ]


def test_a_program_that_takes_many_at_once_gets_as_many_of_a_shard() -> None:
    table = BufferWorld()
    for shard in ("first", "second", "third"):
        table.offer(shard, *(f"{shard[0]}{number}" for number in range(100)))
    table.tasks.sleep(timedelta(0))
    pull = table.messages(acks=True, max_records=60)
    runs: list[list[bytes]] = []
    for _ in range(8):
        taken = [table.ask(pull), *iter_taken(pull)]
        runs.append([one.record.data[:1] for one in taken])
        assert table.buffer.ack(taken[-1])
        assert table.buffer.buffered.records <= 60
    assert all(len(set(run)) == 1 for run in runs)
    assert max(map(len, runs[:3])) <= 20  # a third of the room for each shard
    assert max(map(len, runs[3:])) > 20
    assert {shard for [shard, *_] in runs[3:]} == {b"f", b"s", b"t"}


def iter_taken(pull: PullRequest) -> Iterator[Delivery]:
    while pull.prefetched:
        yield pull.prefetched.popleft()


def test_a_prefetch_that_is_cut_short_makes_the_next_ones_shorter() -> None:
    table = BufferWorld()
    table.offer("shard", *(f"a{number}" for number in range(400)))
    pull = table.messages(acks=True)
    sizes = []
    for taken_whole in (True, True, True, False, False, False):
        last = table.ask(pull)
        sizes.append(len(pull.prefetched))
        for last in iter_taken(pull) if taken_whole else ():  # noqa: B007
            pass
        assert table.buffer.ack(last)
    table.ask(pull)
    assert sizes == [8, 24, 56, 120, 64, 36]
    assert len(pull.prefetched) == 22


def test_take_looks_again_when_the_buffer_is_empty() -> None:
    table = BufferWorld()
    assert isinstance(table.buffer.take(table.messages(), None), LookAgain)


def test_bytes_are_counted_as_kinesis_counts_them() -> None:
    table = BufferWorld()
    assert ends_of([table._record(0, "a0"), table._record(1, "b12")]) == [0, 3, 7]


def test_loop_over_messages_takes_prefetched_records() -> None:
    world = PulledWorld()
    world.put(f"a{number}" for number in range(500))
    with world.consumer(poll_bytes=None) as consumer:
        messages = consumer.messages(auto_ack=True)
        assert [one.data for one in islice(messages, 100)] == [b"a%d" % number for number in range(100)]
        ahead = messages._subscription.request.prefetched
        left = len(ahead)
        assert left > 20
        assert [one.data for one in islice(messages, 10)] == [b"a%d" % number for number in range(100, 110)]
        assert len(ahead) == left - 10
        world.sleep(0.001)
        next(messages)
        assert not ahead  # that prefetch was over
