"""A task's leases are released however often it is cancelled while it leaves, and whatever the program's threads do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sublet.aio import Consumer
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream, memory_ports

PATIENCE = 30
"""Seconds that a test waits for what should take one or two."""

Inside = Callable[[Consumer], Awaitable[object]]


class World:
    """A stream of one record, and its leases. `has_got` is set when a consumer holds the lease."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.stream = MemoryStream(clock=self.clock, name="events")
        self.table = MemoryLeaseTable()
        self.stream.put("key", b"data")
        self.ports = memory_ports(self.stream, self.table, sightings=MemorySightingStore(), clock=self.clock)
        self.has_got = asyncio.Event()

    def consumer(self) -> Consumer:
        return Consumer("orders", "events", ports=self.ports)

    async def stay(self, consumer: Consumer) -> None:
        """In a block that only a cancellation ends."""
        async with consumer:
            record = await consumer.next()
            assert record is not None
            self.has_got.set()
            await asyncio.sleep(PATIENCE)

    async def fetch(self, consumer: Consumer) -> None:
        """The same outside of a block."""
        async with consumer.fetch(2) as records:
            await anext(records)
            self.has_got.set()
            await asyncio.sleep(PATIENCE)

    @property
    def owners(self) -> set[str | None]:
        return {lease.actual_owner for lease in self.table.scan().leases}


def run(main: Callable[[World], Awaitable[None]]) -> None:
    async def patiently() -> None:
        await asyncio.wait_for(main(World()), PATIENCE)

    asyncio.run(patiently())


@contextmanager
def busy_default_executor() -> Iterator[None]:
    """As in a program whose own `asyncio.to_thread` calls take all of its threads."""
    is_over = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(is_over.wait, PATIENCE)
        yield
        is_over.set()


@pytest.mark.parametrize("way", [World.stay, World.fetch])
@pytest.mark.parametrize("turns", range(4))
def test_task_releases_every_lease_when_cancelled_again_while_leaving(
    way: Callable[[World, Consumer], Any], turns: int
) -> None:
    async def main(world: World) -> None:
        consumer = world.consumer()
        staying = asyncio.create_task(way(world, consumer))
        await world.has_got.wait()
        staying.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        staying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await staying
        assert world.owners == {None}
        async with consumer:
            assert await consumer.next() is not None

    run(main)


@pytest.mark.parametrize("way", [World.stay, World.fetch])
def test_time_limits_that_pass_while_other_work_has_all_threads(
    way: Callable[[World, Consumer], Any],
) -> None:
    """The first passes once the lease is held, and the second while it is being released."""

    async def main(world: World) -> None:
        async def pass_both(outer: asyncio.Timeout, inner: asyncio.Timeout) -> None:
            await world.has_got.wait()
            now = asyncio.get_running_loop().time()
            inner.reschedule(now)
            outer.reschedule(now + 0.01)

        async def limited() -> None:
            async with asyncio.timeout(None) as outer, asyncio.timeout(None) as inner:
                passing.append(asyncio.create_task(pass_both(outer, inner)))
                await way(world, world.consumer())

        passing: list[asyncio.Task[None]] = []
        with busy_default_executor():
            with pytest.raises(TimeoutError):
                await limited()
            assert world.owners == {None}
            await passing[0]

    run(main)
