"""The pull API under uvloop, and by anyio's task groups and cancel scopes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
import uvloop
from sublet.aio import Consumer
from sublet.ports import Ports
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryStream, memory_ports

PATIENCE = 30


@pytest.fixture
def ports() -> Ports:
    clock = SystemClock()
    stream = MemoryStream(clock=clock, name="orders")
    for number in range(10):
        stream.put("key", b"%d" % number)
    return memory_ports(stream, clock=clock)


def owners(ports: Ports) -> set[str | None]:
    return {lease.actual_owner for lease in ports.table.scan().leases}


def on_asyncio(main: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(_patiently(main))


def on_uvloop(main: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_patiently(main))


def on_anyio(main: Callable[[], Awaitable[None]]) -> None:
    async def patiently() -> None:
        with anyio.fail_after(PATIENCE):
            await main()

    anyio.run(patiently)


async def _patiently(main: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(PATIENCE):
        await main()


anywhere = pytest.mark.parametrize("run", [on_asyncio, on_uvloop, on_anyio])


@anywhere
def test_records_are_fetched_and_iterated(ports: Ports, run: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
    seen: list[bytes] = []

    async def main() -> None:
        async with Consumer("audit", "orders", ports=ports) as consumer:
            async for record in consumer.fetch(3):
                seen.append(record.data)
                await record.ack()
            messages = consumer.messages(auto_ack=True)
            seen.extend([(await anext(messages)).data for _ in range(3)])
            await messages.aclose()
            last = await consumer.next()
            assert last is not None
            seen.append(last.data)

    run(main)
    assert seen == [b"%d" % number for number in range(7)]
    assert owners(ports) == {None}


@anywhere
def test_a_task_group_of_anyio_is_cancelled_and_nothing_is_held(
    ports: Ports, run: Callable[[Callable[[], Awaitable[None]]], None]
) -> None:
    seen: list[bytes] = []

    async def consume(all_seen: anyio.Event) -> None:
        async with Consumer("audit", "orders", ports=ports) as consumer:
            async for record in consumer.messages():
                seen.append(record.data)
                await record.ack()
                if len(seen) == 10:
                    all_seen.set()

    async def main() -> None:
        all_seen = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(consume, all_seen)
            await all_seen.wait()
            group.cancel_scope.cancel()

    run(main)
    assert seen == [b"%d" % number for number in range(10)]
    assert owners(ports) == {None}
