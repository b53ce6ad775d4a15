"""The pull API on an event loop, with the engine's real threads over memory: no cancellation keeps or loses a
record.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from sublet import SettingsError, StreamError
from sublet.aio import Consumer, Record
from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream, memory_ports

PATIENCE = 30
"""Seconds that a test waits for what should take one or two."""

SHARD = "shardId-000000000000"


class World:
    """A stream and its leases; each consumer has ports of its own to them."""

    def __init__(self, shards: int = 1) -> None:
        self.clock = SystemClock()
        self.stream = MemoryStream(shards, clock=self.clock, name="events")
        self.table = MemoryLeaseTable()
        self.sightings = MemorySightingStore()
        self.events: list[Event] = []

    def consumer(self, told: Callable[[Event], object] | None = None, **settings: Any) -> Consumer:
        ports = memory_ports(self.stream, self.table, sightings=self.sightings, clock=self.clock)
        return Consumer("orders", "events", ports=ports, on_event=told or self.events.append, **settings)

    def put(self, *data: str) -> None:
        for one in data:
            self.stream.put(one[0], one.encode())

    @property
    def owners(self) -> set[str | None]:
        return {lease.actual_owner for lease in self.table.scan().leases}

    def handled(self) -> str:
        """The data of the last record that is checkpointed."""
        sequence_number = self.table.scan().leases[0].checkpoint.sequence_number
        records = self.stream.logs[0].read(0, 10_000)[0]
        return next(record.data.decode() for record in records if record.sequence_number == sequence_number)


@pytest.fixture
def world() -> World:
    return World()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what threads do sets no event of the loop
        await asyncio.sleep(0.01)


def test_messages_are_iterated_and_acknowledged(world: World) -> None:
    async def main() -> None:
        world.put("a0", "b0", "a1")
        seen = []
        async with world.consumer() as consumer:
            async for record in consumer.messages():
                seen.append(record.data)
                assert await record.ack()
                if len(seen) == 3:
                    break
        assert seen == [b"a0", b"b0", b"a1"]

    run(main())
    assert world.handled() == "a1"
    assert world.owners == {None}


def test_fetch_and_next(world: World) -> None:
    async def main() -> None:
        world.put("a0", "b0", "a1")
        async with world.consumer() as consumer:
            assert [record.data async for record in consumer.fetch(2)] == [b"a0", b"b0"]
            record = await consumer.next()
            assert record is not None
            assert record.data == b"a1"
            assert await consumer.next(expires=1) is None
            assert (await consumer.info()).workers == {consumer.settings.worker_id: 1}
            assert [group.leases for group in (await consumer.distribution(cached=True)).groups] == [1]

    run(main())
    assert world.owners == {None}


def test_record_is_delivered_again_without_an_ack(world: World) -> None:
    async def main() -> None:
        world.put("a0", "b0")
        async with world.consumer() as consumer:
            first, second = [record async for record in consumer.fetch(2)]
            assert await second.ack()
            assert await first.nak()
            again = await consumer.next()
            assert again is not None
            assert (again.data, again.attempt) == (b"a0", 2)
        async with world.consumer() as consumer:
            assert [record.data async for record in consumer.fetch(2)] == [b"a0", b"b0"]

    run(main())


def test_a_task_that_is_cancelled_while_it_waits_has_taken_nothing(world: World) -> None:
    async def main() -> None:
        async with world.consumer() as consumer:
            waiting = asyncio.create_task(consumer.next())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            world.put("a0")
            record = await consumer.next()
            assert record is not None
            assert (record.data, record.attempt) == (b"a0", 1)

    run(main())


@pytest.mark.parametrize("turns", [*range(12), 50])
def test_cancelled_at_any_await_nothing_is_held_and_nothing_is_lost(world: World, turns: int) -> None:
    """After so many turns of the loop, or records: while joining, waiting, between records, or acknowledging."""
    many = asyncio.Event()

    async def consume(seen: list[bytes]) -> None:
        async with world.consumer() as consumer:
            async for record in consumer.messages(max_records=2):
                await asyncio.sleep(0)
                seen.append(record.data)
                await record.ack()
                if len(seen) > turns:
                    many.set()

    async def main() -> None:
        world.put(*(f"a{number}" for number in range(100)))
        seen: list[bytes] = []
        consuming = asyncio.create_task(consume(seen))
        for _ in range(turns):
            await asyncio.sleep(0)
        if turns > 10:
            await many.wait()
        consuming.cancel()
        with suppress(asyncio.CancelledError):
            await consuming
        assert world.owners <= {None}
        async with world.consumer() as consumer:
            rest = [record.data async for record in consumer.fetch(100 - len(seen))]
        assert [*seen, *rest] == [b"a%d" % number for number in range(100)]

    run(main())


def test_a_loop_that_is_left_outside_of_a_block_gives_the_leases_back(world: World) -> None:
    async def main() -> None:
        world.put("a0", "a1")
        async for record in world.consumer().messages():
            assert record.data == b"a0"
            break
        await until(lambda: world.owners == {None})

    run(main())


def test_closing_a_fetch_outside_of_a_block_releases_at_once(world: World) -> None:
    async def main() -> None:
        world.put("a0", "a1")
        async with world.consumer().fetch(2) as records:
            assert await (await anext(records)).ack()
        assert world.owners == {None}
        assert world.handled() == "a0"

    run(main())


def test_consume_awaits_a_callback_and_drains(world: World) -> None:
    async def main() -> None:
        world.put(*(f"a{number}" for number in range(20)))
        seen: list[bytes] = []

        async def callback(record: Record) -> None:
            await asyncio.sleep(0)
            seen.append(record.data)

        consuming = await world.consumer().consume(callback, auto_ack=True)
        await until(lambda: len(seen) == 20)
        consuming.drain()
        await consuming.wait()
        assert consuming.closed
        assert seen == [b"a%d" % number for number in range(20)]

    run(main())
    assert world.handled() == "a19"
    assert world.owners == {None}


def test_callbacks_side_by_side_have_each_key_in_order(world: World) -> None:
    async def main() -> None:
        world.put(*(f"{key}{number}" for number in range(5) for key in "abcdef"))
        seen: list[str] = []
        running, two_run = 0, asyncio.Event()

        async def callback(record: Record) -> None:
            nonlocal running
            running += 1
            if running == 2:
                two_run.set()
            await two_run.wait()
            await asyncio.sleep(0.001)
            seen.append(record.data.decode())
            running -= 1

        consuming = await world.consumer().consume(callback, auto_ack=True, partition_by_key=4)
        await until(lambda: len(seen) == 30)
        consuming.drain()
        await consuming.wait()
        for key in "abcdef":
            assert [one for one in seen if one[0] == key] == [f"{key}{number}" for number in range(5)]

    run(main())


def test_lane_waits_until_its_failed_record_succeeds(world: World) -> None:
    async def main() -> None:
        world.put(*(f"a{number}" for number in range(4)))
        seen: list[str] = []

        async def callback(record: Record) -> None:
            seen.append(record.data.decode())
            if seen.count("a0") < 3:
                raise ValueError("not now")

        consumer = world.consumer(handler_backoff=timedelta(0))
        consuming = await consumer.consume(callback, partition_by_key=2, auto_ack=True)
        await until(lambda: "a3" in seen)
        consuming.drain()
        await consuming.wait()
        assert seen == ["a0", "a0", "a0", "a1", "a2", "a3"]

    run(main())


def test_stop_from_the_callback_begins_no_other_call(world: World) -> None:
    async def main() -> None:
        world.put("a0", "a1", "a2")
        seen: list[bytes] = []

        async def callback(record: Record) -> None:
            seen.append(record.data)
            consuming.stop()

        consuming = await world.consumer().consume(callback, auto_ack=True)
        await consuming.wait()
        assert seen == [b"a0"]

    run(main())
    assert world.handled() == "a0"


def test_wait_in_its_own_callback_is_refused(world: World) -> None:
    async def main() -> None:
        world.put("a0")
        why: list[str] = []

        async def callback(record: Record) -> None:
            consuming.stop()
            with pytest.raises(RuntimeError) as refused:
                await consuming.wait()
            why.append(str(refused.value))

        consuming = await world.consumer().consume(callback, auto_ack=True)
        await consuming.wait()
        assert "wait for its own end" in why[0]

    run(main())


async def raises() -> None:
    raise ValueError("not now")


async def awaits_what_is_cancelled() -> None:
    other = asyncio.create_task(asyncio.sleep(PATIENCE))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


async def exits() -> None:
    sys.exit(4)


async def raises_a_group() -> None:
    raise BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError()])


@pytest.mark.parametrize("fails", [raises, awaits_what_is_cancelled, exits, raises_a_group])
def test_a_callback_that_fails_has_its_record_again_and_an_event_tells_on_the_loop(
    world: World, fails: Callable[[], Awaitable[None]]
) -> None:
    async def main() -> None:
        world.put("a0")
        seen: list[int] = []

        async def callback(record: Record) -> None:
            seen.append(record.attempt)
            if record.attempt == 1:
                await fails()

        consuming = await world.consumer(handler_backoff=timedelta(0)).consume(callback, auto_ack=True)
        await until(lambda: len(seen) == 2)
        consuming.drain()
        await consuming.wait()
        assert seen == [1, 2]
        assert EventKind.CALLBACK_FAILED in [event.kind for event in world.events]

    run(main())


@pytest.mark.parametrize(
    ("callback", "why"),
    [
        ("text", "is of type str"),
        (None, "NoneType"),
        (print, "is not async"),
        (lambda _: None, "is not async"),
    ],
)
def test_a_callback_that_cannot_be_awaited_is_refused(world: World, callback: Any, why: str) -> None:
    async def main() -> None:
        with pytest.raises(SettingsError, match=f"callback = .* {why}"):
            await world.consumer().consume(callback)

    run(main())


def test_a_cancelled_wait_leaves_no_waiter_behind(world: World) -> None:
    async def main() -> None:
        async with world.consumer() as consumer:
            messages = consumer.messages()
            for _ in range(20):
                with suppress(TimeoutError):
                    await asyncio.wait_for(anext(messages), 0.001)
            assert not messages.session.buffer._waiters

    run(main())


def test_a_callback_that_forgets_to_await_has_done_nothing(world: World) -> None:
    async def main() -> None:
        world.put("a0")
        seen: list[bytes] = []

        async def store(record: Record) -> bytes:
            seen.append(record.data)
            return record.data

        async def callback(record: Record) -> object:
            return store(record) if record.attempt == 1 else await store(record)

        consuming = await world.consumer(handler_backoff=timedelta(0)).consume(callback, auto_ack=True)
        await until(lambda: len(seen) == 1)
        consuming.drain()
        await consuming.wait()
        assert EventKind.CALLBACK_FAILED in [event.kind for event in world.events]

    run(main())


def test_events_are_delivered_on_a_second_event_loop(world: World) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    consumer = world.consumer(told=lambda _: loops.append(asyncio.get_running_loop()))

    async def main() -> None:
        world.put("a0")
        async with consumer:
            record = await consumer.next()
            assert record is not None
            await record.ack()
        assert loops[-1] is asyncio.get_running_loop()

    run(main())
    run(main())


def test_permanent_error_is_raised_where_records_are_awaited(world: World) -> None:
    async def nothing(record: Record) -> None: ...

    async def main() -> None:
        world.stream.delete()
        with pytest.raises(StreamError):
            await world.consumer().next()
        with pytest.raises(StreamError):
            await (await world.consumer().consume(nothing)).wait()

    run(main())


def test_tasks_of_a_group_share_a_membership(world: World) -> None:
    async def main() -> None:
        world.put(*(f"{key}0" for key in "abcdef"))
        async with world.consumer() as consumer, asyncio.TaskGroup() as group:
            tasks = [group.create_task(consumer.next()) for _ in range(6)]
        records = [task.result() for task in tasks]
        assert sorted(record.data for record in records if record is not None) == [
            f"{key}0".encode() for key in "abcdef"
        ]

    run(main())


def test_records_that_are_there_already_do_not_keep_other_tasks_from_their_turn(world: World) -> None:
    async def main() -> None:
        world.put(*(f"a{number}" for number in range(10_000)))
        turns = count()

        async def other() -> None:
            while True:
                next(turns)
                await asyncio.sleep(0)

        async with world.consumer(max_ack_pending=20_000) as consumer:
            messages = consumer.messages(max_records=10_000, auto_ack=True)
            await anext(messages)
            counting = asyncio.create_task(other())
            for _ in range(9_990):
                await anext(messages)
            counting.cancel()
        assert next(turns) > 3

    run(main())
