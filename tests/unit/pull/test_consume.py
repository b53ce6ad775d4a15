"""messages and consume, by the letter of ADR-37, over the whole engine in memory and in simulated time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, cast

import pytest
from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.decisions.session.read_position import ReadPosition
from sublet.errors import (
    AwsNotConfigured,
    LeaseTableAccessDenied,
    LeaseTableNotFound,
    SettingsError,
    StreamAccessDenied,
    StreamNotFound,
    StreamUnavailable,
)
from sublet.ports import PollRefusal, Refusal, ShardReader, Stream, Unanswered
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.pull.record import Record
from sublet.reading.polling import PollingReader
from sublet.settings import StartPosition
from sublet.testing.memory import MemoryStream

from tests.doubles.pulled import SECOND, PulledWorld
from tests.doubles.refusing_table import OutOfReach, RefusingTable

SHARD = "shardId-000000000000"


def data(records: Iterable[Record]) -> list[str]:
    return [record.data.decode() for record in records]


def numbered(key: str, count: int) -> list[str]:
    return [f"{key}{number}" for number in range(count)]


def test_messages_come_without_an_end_and_are_done_when_the_next_is_asked_for() -> None:
    world = PulledWorld()
    world.put(numbered("a", 5))
    with world.consumer() as consumer:
        records = list(islice(consumer.messages(auto_ack=True), 3))
    assert data(records) == ["a0", "a1", "a2"]
    assert world.checkpoints[SHARD] == records[1].user_record.checkpoint


def test_leaving_the_loop_outside_of_with_gives_the_leases_back() -> None:
    world = PulledWorld()
    world.put(numbered("a", 5))
    for record in world.consumer().messages():
        assert record.data == b"a0"
        break
    world.sleep(3)
    assert world.owners == {None}


def test_buffer_holds_at_most_its_maximum_and_refills_at_its_threshold() -> None:
    world = PulledWorld()
    world.put(numbered("a", 100))
    with world.consumer(poll_bytes=None) as consumer:  # all of it in the first page
        messages = consumer.messages(max_records=10, threshold_records=4, auto_ack=True)
        assert consumer._group.entered is not None
        buffer = consumer._group.entered.buffer
        seen = [buffer.buffered.records for _ in islice(messages, 30)]
    assert max(seen) == 10
    assert seen[:7] == [9, 8, 7, 6, 5, 10, 9]  # down to 4, then up to 10 again


@pytest.mark.parametrize("maximum", [{"max_records": 1}, {"max_bytes": 1}, {"max_bytes": 7}])
def test_a_buffer_of_one_record_does_not_get_stuck(maximum: dict[str, int]) -> None:
    world = PulledWorld()
    world.put(numbered("a", 20))
    with world.consumer() as consumer:
        assert data(islice(consumer.messages(auto_ack=True, **maximum), 20)) == numbered("a", 20)


def test_a_full_buffer_stops_the_polls_while_heartbeats_go_on() -> None:
    world = PulledWorld()
    world.put(numbered("a", 20))
    with world.consumer(batch_size=1) as consumer:
        messages = consumer.messages(max_records=2)
        next(messages)
        world.sleep(1)
        before = world.table.get(SHARD)
        polls = len(world.log.lines)
        world.sleep(120)
        after = world.table.get(SHARD)
        assert len(world.log.lines) == polls
        assert after.lease_counter > before.lease_counter  # type: ignore[union-attr] # both are leases
        assert consumer._group.entered.buffer.buffered.records <= 2  # type: ignore[union-attr]


def test_shard_has_at_most_max_ack_pending_records_out() -> None:
    world = PulledWorld()
    world.put(numbered("a", 10))
    with world.consumer(max_ack_pending=3) as consumer:
        records = list(consumer.fetch(10, expires=5))
        assert data(records) == ["a0", "a1", "a2"]
        records[1].ack()
        assert data(consumer.fetch(10, expires=5)) == []
        records[0].ack()
        assert data(consumer.fetch(10, expires=5)) == ["a3", "a4"]


def test_no_shard_starves_while_another_is_hot() -> None:
    world = PulledWorld(shards=2)
    cold, hot = (str(log.hash_key_range.starting) for log in world.stream.logs)
    for number in range(100):
        world.stream.put("hot", b"h%d" % number, int(hot))
    for number in range(10):
        world.stream.put("cold", b"c%d" % number, int(cold))
    with world.consumer() as consumer:
        world_records = consumer.messages(max_records=20, auto_ack=True)
        world.sleep(5)  # both have offered their batch
        first = data(islice(world_records, 60))
    assert [one for one in first if one[0] == "c"] == numbered("c", 10)
    assert [one for one in first if one[0] == "h"] == numbered("h", 50)


def test_consume_calls_with_each_record_in_order_and_drains() -> None:
    world = PulledWorld()
    world.put(numbered("a", 20))
    seen: list[str] = []
    consuming = world.consumer().consume(lambda record: seen.append(record.data.decode()), auto_ack=True)
    world.sleep(10)
    world.put(["a20"])
    consuming.drain()
    consuming.wait()
    assert consuming.closed
    assert seen[:20] == numbered("a", 20)
    assert world.owners == {None}
    assert world.checkpoints[SHARD].sequence_number == world.stream.logs[0].read(len(seen) - 1, 1)[0][0].sequence_number


def test_stop_in_the_callback_ends_consuming_and_redelivers_buffered_records() -> None:
    world = PulledWorld()
    world.put(numbered("a", 20))
    seen: list[str] = []

    def callback(record: Record) -> None:
        seen.append(record.data.decode())
        if len(seen) == 3:
            consuming.stop()

    consuming = world.consumer().consume(callback, auto_ack=True)
    consuming.wait()
    assert seen == ["a0", "a1", "a2"]
    with world.consumer() as consumer:
        assert data(consumer.fetch(1)) == ["a3"]


def test_a_callback_that_raises_has_its_record_again_and_an_event_tells() -> None:
    world = PulledWorld()
    world.put(["a0", "b0", "a1"])
    seen: list[str] = []

    def callback(record: Record) -> None:
        seen.append(f"{record.data.decode()} {record.attempt}")
        if record.data == b"a0" and record.attempt < 3:
            raise ValueError("not now")

    consuming = world.consumer().consume(callback, auto_ack=True)
    world.sleep(30)
    consuming.drain()
    consuming.wait()
    assert seen == ["a0 1", "b0 1", "a0 2", "a0 3", "a1 1"]
    assert world.told(EventKind.CALLBACK_FAILED) == 2
    logged = [line.fields for line in world.log.lines if line.message == "callback failed"]
    assert [line["error"] for line in logged] == ["ValueError", "ValueError"]
    assert [str(line["what"]).rpartition(" ")[2] for line in logged] == ["1s", "2s"]
    assert "not now" in str(logged[0]["traceback"])


def test_listener_of_a_consume_is_removed_at_its_end() -> None:
    world = PulledWorld()
    told: list[Event] = []
    with world.consumer() as consumer:
        for _ in range(3):
            consuming = consumer.consume(lambda _: None, on_event=told.append)
            consuming.stop()
            consuming.wait()
        assert consumer._group.entered is not None
        assert len(consumer._group.entered.events._listeners) == 1  # the consumer's own


async def is_async(record: Record) -> None: ...


def yields(record: Record) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("callback", "why"),
    [(is_async, "use sublet.aio"), (yields, "runs none of its code"), (lambda: None, "called with"), ("text", "str")],
)
def test_a_callback_of_which_a_call_would_run_nothing_is_refused(callback: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"callback.* {why}"):
        PulledWorld().consumer().consume(callback)


@pytest.mark.parametrize("auto_ack", [True, False])
def test_a_call_whose_work_is_left_to_others_is_not_done_by_returning(auto_ack: bool) -> None:
    world = PulledWorld()
    world.put(["a0"])
    seen: list[int] = []

    def callback(record: Record) -> Future[None] | None:
        seen.append(record.attempt)
        if not auto_ack:
            record.ack()  # as the code does that it was left to
        return Future() if record.attempt == 1 else None

    consuming = world.consumer().consume(callback, auto_ack=auto_ack)
    world.sleep(30)
    consuming.drain()
    consuming.wait()
    assert seen == ([1, 2] if auto_ack else [1])
    assert world.told(EventKind.CALLBACK_FAILED) == auto_ack


def test_callbacks_side_by_side_have_each_key_in_order() -> None:
    world = PulledWorld()
    keys = [f"k{number}" for number in range(6)]
    for number in range(5):
        for key in keys:
            world.put([f"{key} {number}"], key)
    seen: list[tuple[str, datetime]] = []

    def callback(record: Record) -> None:
        world.sleep(1)
        seen.append((record.data.decode(), world.clock.steady()))

    consuming = world.consumer().consume(callback, auto_ack=True, partition_by_key=3)
    world.sleep(60)
    consuming.drain()
    consuming.wait()
    assert len(seen) == 30
    for key in keys:
        assert [one for one, _ in seen if one.startswith(key)] == [f"{key} {number}" for number in range(5)]
    assert seen[-1][1] - seen[0][1] < 29 * SECOND  # not one after the other


def test_lane_waits_until_its_failed_record_succeeds() -> None:
    world = PulledWorld()
    world.put(numbered("a", 4))
    seen: list[str] = []

    def callback(record: Record) -> None:
        world.sleep(1)  # the others are in the lane by then
        seen.append(f"{record.data.decode()} {record.attempt}")
        if record.data == b"a0" and record.attempt < 3:
            raise ValueError("not now")

    with world.consumer() as consumer:
        consuming = consumer.consume(callback, auto_ack=True, partition_by_key=2)
        world.sleep(60)
        consuming.drain()
        consuming.wait()
    assert [one.split()[0] for one in seen] == ["a0", "a0", "a0", "a1", "a2", "a3"]


def test_a_record_may_wait_in_its_lane_and_ack_wait_begins_with_its_call() -> None:
    world = PulledWorld()
    world.put(["a0", "a1"])
    acks: list[bool] = []

    def callback(record: Record) -> None:
        world.sleep(4)
        acks.append(record.ack())

    with world.consumer(ack_wait=timedelta(seconds=5)) as consumer:
        consuming = consumer.consume(callback, partition_by_key=1)
        world.sleep(30)
        consuming.drain()
        consuming.wait()
    assert acks == [True, True]


@pytest.mark.parametrize("gone", ["stream", "table"])
def test_permanent_error_is_raised_to_the_program(gone: str) -> None:
    world = PulledWorld()
    world.put(["a0"])
    table = RefusingTable(world.table, LeaseTableNotFound("there is no table orders"))
    with world.consumer(world.ports(table=table)) as consumer:
        messages = consumer.messages(auto_ack=True)
        next(messages)
        if gone == "stream":
            world.stream.delete()
        else:
            table.refuses = True
        before = world.clock.steady()
        with pytest.raises(StreamNotFound if gone == "stream" else LeaseTableNotFound):
            next(messages)
        lasted = world.clock.steady() - before
        assert lasted < 30 * SECOND if gone == "table" else 600 * SECOND <= lasted < 660 * SECOND


REFUSALS = [
    StreamAccessDenied("no kinesis:ListShards"),
    AwsNotConfigured("AWS does not accept these credentials"),
    LeaseTableAccessDenied("no dynamodb:Scan"),
]


@pytest.mark.parametrize("problem", REFUSALS)
def test_a_refusal_after_the_first_record_ends_nothing_if_it_passes(problem: Exception) -> None:
    world = PulledWorld()
    world.put(["a0"])
    stream, table = OutOfReach(world.stream, problem), RefusingTable(world.table, problem)
    stream.refuses = False
    with world.consumer(world.ports(cast("Stream", stream), table)) as consumer:
        messages = consumer.messages(auto_ack=True)
        assert next(messages).data == b"a0"
        stream.refuses = table.refuses = True
        world.sleep(300)
        stream.refuses = table.refuses = False
        world.put(["a1"])
        assert data(islice(messages, 2)) == ["a0", "a1"]  # the first was out when its lease was lost


@pytest.mark.parametrize("problem", REFUSALS)
def test_a_refusal_before_anything_has_worked_is_raised_at_once(problem: Exception) -> None:
    world = PulledWorld()
    before = world.clock.steady()
    with world.consumer(world.ports(cast("Stream", OutOfReach(world.stream, problem)))) as consumer:
        with pytest.raises(type(problem)):
            next(consumer.messages())
        assert world.clock.steady() - before < 5 * SECOND


def test_an_outage_is_reported_once_and_ends_nothing() -> None:
    world = PulledWorld()
    world.put(["a0"])
    stream = UnsteadyStream(world.stream)
    with world.consumer(world.ports(stream)) as consumer:
        messages = consumer.messages(auto_ack=True)
        next(messages)
        stream.is_unreachable = True
        world.sleep(40)
        world.put(["a1"])
        assert world.told(EventKind.DISCONNECTED) == 1
        assert world.told(EventKind.MISSED_HEARTBEAT) == 0  # the timer pauses
        stream.is_unreachable = False
        assert data(islice(messages, 2)) == ["a0", "a1"]  # the first was out when its lease was given back
        assert world.told(EventKind.RECONNECTED) == 1


def test_throttled_polls_are_reported() -> None:
    world = PulledWorld()
    stream = UnsteadyStream(world.stream)
    with world.consumer(world.ports(stream)) as consumer:
        world.put_later(5, ["a0"])
        stream.throttles = 1
        assert consumer.next() is not None
        assert world.told(EventKind.THROTTLED) == 1


def test_a_kinesis_that_does_not_answer_is_reported_as_such() -> None:
    """Polls into a black hole, each until its time is over, while DynamoDB answers."""
    world = PulledWorld(shards=2)
    stream = UnsteadyStream(world.stream)
    began = world.clock.steady()
    told: list[tuple[EventKind, float]] = []
    with world.consumer(world.ports(stream)) as consumer:
        messages = consumer.consume(
            lambda record: record.ack(),
            idle_heartbeat=1,
            on_event=lambda event: told.append((event.kind, (world.clock.steady() - began).total_seconds())),
        )
        world.sleep(5)
        began = world.clock.steady()
        stream.swallows = world.sleep
        world.sleep(40)
        stream.swallows = None
        world.sleep(60)
        messages.stop()
    first = dict(reversed(told))
    assert EventKind.THROTTLED not in first
    assert first[EventKind.MISSED_HEARTBEAT] < 12 < first[EventKind.DISCONNECTED] < 18
    assert first[EventKind.RECONNECTED] > 40


def test_lease_events_are_reported() -> None:
    world = PulledWorld()
    world.put(["a0"])
    with world.consumer() as consumer:
        record = consumer.next()
        assert record is not None
        record.ack()
        world.stream.split(SHARD)
        world.sleep(60)
        assert world.told(EventKind.LEASE_ACQUIRED) == 3
        assert world.told(EventKind.SHARD_ENDED) == 1
    assert world.told(EventKind.LEASE_RELEASED) == 2


def test_requested_lease_is_released_and_its_records_can_no_longer_be_acked() -> None:
    world = PulledWorld(shards=2)
    fast: dict[str, Any] = {"failover_time": timedelta(seconds=6), "heartbeat_interval": SECOND}
    with world.consumer(worker_id="first", **fast) as first:
        world.put(numbered("a", 3))
        records = list(first.fetch(3, expires=10))
        with world.consumer(worker_id="second", **fast):
            world.sleep(120)
            assert world.owners == {"first", "second"}
            assert (world.told(EventKind.LEASE_RELEASED), world.told(EventKind.LEASE_LOST)) == (1, 0)
            given = next(event.shard_id for event in world.events if event.kind is EventKind.LEASE_RELEASED)
            assert {record.ack() for record in records} == {records[0].shard_id != given}


class UnsteadyStream:
    """A stream that cannot be reached, does not answer, or throttles so many polls."""

    def __init__(self, stream: MemoryStream) -> None:
        self._stream = stream
        self.is_unreachable = False
        self.throttles = 0
        self.swallows: Callable[[float], None] | None = None
        """Polls take as long as a client waits for an answer, and have none."""

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        self._check()
        return self._stream.list_shards(at)

    def describe(self) -> StreamDescription:
        self._check()
        return self._stream.describe()

    def has_shard(self, shard_id: str) -> bool:
        self._check()
        return self._stream.has_shard(shard_id)

    def service_time(self) -> datetime:
        self._check()
        return self._stream.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        self._check()
        return self._stream.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        if self.swallows is not None:
            self.swallows(15)
            return Unanswered("no answer")
        self._check()
        if self.throttles:
            self.throttles -= 1
            return PollRefusal.THROTTLED
        return self._stream.poll(iterator, limit)

    def _check(self) -> None:
        if self.swallows is not None:
            self.swallows(60)  # asked six times
        if self.is_unreachable or self.swallows is not None:
            raise StreamUnavailable("the network is down")


def test_a_batch_that_is_admitted_over_several_checkpoints_comes_once() -> None:
    world = PulledWorld()
    world.put(numbered("a", 50))
    seen = []
    with world.consumer(checkpoint_interval=SECOND, window=timedelta(seconds=90)) as consumer:
        for record in islice(consumer.messages(max_records=2, auto_ack=True), 50):
            world.sleep(1)
            seen.append(record.data.decode())
            assert record.attempt == 1
    assert seen == numbered("a", 50)


def test_a_lease_is_released_though_its_records_are_not_taken() -> None:
    world = PulledWorld(shards=2)
    fast: dict[str, Any] = {"failover_time": timedelta(seconds=6), "heartbeat_interval": SECOND}
    for log in world.stream.logs:
        world.stream.put("a", b"a0", log.hash_key_range.starting)
    with world.consumer(worker_id="first", **fast):
        world.sleep(10)
        assert world.owners == {"first"}
        with world.consumer(worker_id="second", **fast):
            world.sleep(120)
            assert world.owners == {"first", "second"}
            assert world.told(EventKind.LEASE_RELEASED) == 1


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_signal_handler_may_end_a_pull_that_holds_the_lock(end: str) -> None:
    world = PulledWorld()
    world.put(["a0"])
    with world.consumer() as consumer:
        messages = consumer.messages()
        next(messages).ack()
        assert consumer._group.entered is not None
        with consumer._group.entered.buffer._lock:
            getattr(messages, end)()
        assert list(messages) == []


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_a_pull_that_ends_inside_of_with_leaves_the_others_going_on(end: str) -> None:
    world = PulledWorld()
    world.put(["a0", "b0"])
    with world.consumer() as consumer:
        beside, messages = consumer.messages(), consumer.messages()
        first = next(messages)
        getattr(messages, end)()
        assert first.ack()
        for record in messages:
            assert record.ack()
        world.put(["c0"])
        later = next(beside)
        assert later.ack()
        world.put(["d0"])
        assert len(data(consumer.fetch(1, expires=10))) == 1


def test_an_on_event_that_raises_is_logged_and_changes_nothing() -> None:
    world = PulledWorld()
    world.put(["a0", "a1"])

    def on_event(event: Event) -> None:
        raise RuntimeError(f"what is a {event.kind}?")

    with world.consumer(ack_wait=timedelta(seconds=5)) as consumer:
        assert consumer._group.entered is not None
        consumer._group.entered.events._listeners.insert(0, on_event)
        forgotten = consumer.next()
        assert forgotten is not None
        world.sleep(10)
        assert data(consumer.fetch(2)) == ["a0", "a1"]
    assert world.told(EventKind.ACK_WAIT_OVER) == 1
    assert [line.fields["event"] for line in world.log.lines if line.message == "on_event failed"] == [
        event.kind for event in world.events
    ]


@pytest.mark.parametrize("lanes", [None, 2])
def test_a_callback_that_would_exit_has_failed(lanes: int | None) -> None:
    world = PulledWorld()
    world.put(["a0", "b0"])
    seen: list[str] = []

    def callback(record: Record) -> None:
        seen.append(f"{record.data.decode()} {record.attempt}")
        if seen == ["a0 1"]:
            sys.exit(4)

    with world.consumer() as consumer:
        consuming = consumer.consume(callback, auto_ack=True, partition_by_key=lanes)
        world.sleep(30)
        consuming.drain()
        consuming.wait()
    assert sorted(seen) == ["a0 1", "a0 2", "b0 1"]
    assert world.told(EventKind.CALLBACK_FAILED) == 1


@pytest.mark.parametrize("lanes", [None, 2])
def test_wait_in_its_own_callback_is_refused(lanes: int | None) -> None:
    world = PulledWorld()
    world.put(["a0"])
    why: list[str] = []

    def callback(record: Record) -> None:
        record.ack()
        consuming.stop()
        with pytest.raises(RuntimeError) as refused:
            consuming.wait()
        why.append(str(refused.value))

    with world.consumer() as consumer:
        consuming = consumer.consume(callback, partition_by_key=lanes)
        consuming.wait()
    assert "call stop() or drain() there" in why[0]


def test_no_lanes_are_refused_before_anything_begins() -> None:
    world = PulledWorld()
    with pytest.raises(SettingsError, match="partition_by_key"):
        world.consumer().consume(print, partition_by_key=0)
