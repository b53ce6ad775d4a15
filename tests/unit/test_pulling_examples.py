"""The examples of the pull API, over memory."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
import sublet
from sublet.aio import Consumer
from sublet.memory import MemoryStream, memory_ports
from sublet.ports import Ports

from examples.pulling import cron, lifespan, workers

PATIENCE = 30


@pytest.fixture
def ports() -> Ports:
    stream = MemoryStream(name="orders")
    for number in range(5):
        stream.put(f"key-{number}", b"%d" % number)
    return memory_ports(stream)


def owners(ports: Ports) -> set[str | None]:
    return {lease.actual_owner for lease in ports.table.scan().leases}


def test_a_cron_job_goes_on_where_the_last_one_ended(ports: Ports) -> None:
    seen: list[bytes] = []

    def handle(data: bytes) -> None:
        seen.append(data)
        if len(seen) == 3:
            raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        cron.run(sublet.Consumer("cron", "orders", ports=ports), handle)
    assert owners(ports) == {None}
    with sublet.Consumer("cron", "orders", ports=ports).fetch(3) as records:
        assert [record.data for record in records] == [b"2", b"3", b"4"]


def test_a_service_consumes_while_it_lives(ports: Ports) -> None:
    async def main() -> None:
        seen: dict[str, bytes] = {}
        async with lifespan.lifespan(Consumer("view", "orders", ports=ports), seen):
            while len(seen) < 5:  # noqa: ASYNC110 - what threads do sets no event of the loop
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert owners(ports) == {None}


def test_requests_are_made_at_once_and_one_that_fails_is_made_again(ports: Ports) -> None:
    async def main() -> None:
        sent: list[bytes] = []
        all_sent = asyncio.Event()

        async def send(data: bytes) -> None:
            sent.append(data)
            if len(sent) == 5:
                all_sent.set()
            if data == b"0":
                raise ConnectionError("not now")

        forwarding = asyncio.create_task(workers.forward(Consumer("forward", "orders", ports=ports), send))
        await all_sent.wait()
        forwarding.cancel()
        with suppress(asyncio.CancelledError):
            await forwarding
        async with Consumer("forward", "orders", ports=ports).fetch(1) as records:
            assert (await anext(records)).data == b"0"

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
