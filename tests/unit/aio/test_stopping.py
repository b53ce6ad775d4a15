"""A program on an event loop is stopped, by a signal or by leaving its block, with callbacks in progress."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from sublet.aio import Consumer, Record
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


def run(main: Callable[[], Awaitable[None]], loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def patiently() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(patiently())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_messages_that_are_waited_for(
    ports: Ports, loop: Callable[[], asyncio.AbstractEventLoop], number: int
) -> None:
    seen: list[bytes] = []

    async def main() -> None:
        async with Consumer("audit", "orders", ports=ports, until_signalled=True) as consumer:
            async for record in consumer.messages():
                seen.append(record.data)
                assert await record.ack()
                if len(seen) == 10:
                    threading.Timer(0.2, os.kill, [os.getpid(), number]).start()
            assert consumer.stopped

    before = signal.getsignal(number)
    run(main, loop)
    assert signal.getsignal(number) is before
    assert len(seen) == 10
    assert owners(ports) == {None}


def test_leaving_the_block_awaits_running_calls_and_begins_no_other(ports: Ports) -> None:
    ended: list[bool] = []

    async def main() -> None:
        is_called = asyncio.Event()

        async def callback(record: Record) -> None:
            is_called.set()
            await asyncio.sleep(0.5)
            ended.append(await record.ack())

        async with Consumer("audit", "orders", ports=ports) as consumer:
            await consumer.consume(callback)
            await is_called.wait()

    run(main, asyncio.new_event_loop)
    assert ended == [True]
    assert owners(ports) == {None}


def test_an_exception_that_ends_the_block_cancels_the_calls_under_way(ports: Ports) -> None:
    cancelled: list[bytes] = []

    async def main() -> None:
        is_called = asyncio.Event()

        async def callback(record: Record) -> None:
            is_called.set()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                cancelled.append(record.data)
                raise

        async with Consumer("audit", "orders", ports=ports) as consumer:
            await consumer.consume(callback)
            await is_called.wait()
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        run(main, asyncio.new_event_loop)
    assert cancelled == [b"0"]
    assert owners(ports) == {None}
