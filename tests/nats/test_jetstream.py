"""The same calls against a real NATS server and against sublet, event for event. `make nats` builds the server, from
the Go module proxy.

An event is which records a call gave and how it ended. Where sublet means something else, that is stated here as well
as in docs/consumer-api.md, and it is a failure if it is so no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.local.embedded import HOST, free_ports
from infra.local.server import running
from tests.nats.servers import Fetched, Pulled, on_jetstream, on_sublet

SERVER = Path(__file__).parents[2] / ".local" / "nats" / "nats-server"
PATIENCE = 60
ACK_WAIT = 1.5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SERVER.exists(), reason="no nats-server: `make nats` builds it, where there is Go"),
]

Event = tuple[Any, ...]
Script = Callable[[Pulled], Awaitable[list[Event]]]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port, monitor = free_ports(2)
    store = tmp_path_factory.mktemp("jetstream")
    command = [str(SERVER), "-a", HOST, "-p", str(port), "-m", str(monitor), "-js", "-sd", str(store)]
    with running("nats-server", command, {}, f"http://{HOST}:{monitor}/healthz"):
        yield port


def event(fetched: Fetched) -> Event:
    return [record.data.decode() for record in fetched.records], fetched.ended


def both(port: int, script: Script, max_ack_pending: int = 1000) -> tuple[list[Event], list[Event]]:
    """What JetStream gave, and what sublet gave."""

    async def main() -> tuple[list[Event], list[Event]]:
        async with on_jetstream(port, ACK_WAIT, max_ack_pending) as pulled:
            theirs = await script(pulled)
        async with on_sublet(ACK_WAIT, max_ack_pending) as pulled:
            return theirs, await script(pulled)

    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def ack_all(fetched: Fetched) -> Event:
    for record in fetched.records:
        await record.ack()
    return event(fetched)


def test_fetch_and_next_end_at_count_or_expiry(port: int) -> None:
    async def script(pulled: Pulled) -> list[Event]:
        await pulled.put("a", "0", "1", "2", "3", "4")
        return [
            await ack_all(await pulled.fetch(3)),
            await ack_all(await pulled.fetch(1)),
            await ack_all(await pulled.fetch(10)),
            await ack_all(await pulled.fetch(1)),
        ]

    theirs, ours = both(port, script)
    assert ours == theirs
    assert [ended for _, ended in ours] == ["count", "count", "expiry", "expiry"]


def test_records_that_come_while_it_waits(port: int) -> None:
    async def script(pulled: Pulled) -> list[Event]:
        waiting = asyncio.create_task(pulled.fetch(2, expires=10))
        await asyncio.sleep(0.3)
        await pulled.put("a", "0")
        await asyncio.sleep(0.3)
        await pulled.put("b", "1", "2")
        return [await ack_all(await waiting), await ack_all(await pulled.fetch(5))]

    theirs, ours = both(port, script)
    assert ours == theirs == [(["0", "1"], "count"), (["2"], "expiry")]


def test_record_is_delivered_again_after_a_nak_or_without_an_ack(port: int) -> None:
    async def script(pulled: Pulled) -> list[Event]:
        await pulled.put("a", "0")
        await pulled.put("b", "1")
        first, second = (await pulled.fetch(2)).records
        await second.ack()
        await first.nak()
        again = await pulled.fetch(1)
        forgotten = await pulled.fetch(1, expires=10)  # nothing was said of it
        await forgotten.records[0].nak(delay=0.5)
        late = await pulled.fetch(1, expires=10)
        return [event(again), event(forgotten), await ack_all(late), event(await pulled.fetch(1))]

    theirs, ours = both(port, script)
    assert ours == theirs == [*[(["0"], "count")] * 3, ([], "expiry")]


def test_a_record_in_progress_or_terminated_does_not_come_again(port: int) -> None:
    async def script(pulled: Pulled) -> list[Event]:
        await pulled.put("a", "0")
        await pulled.put("b", "1")
        first, second = (await pulled.fetch(2)).records
        await asyncio.to_thread(lambda: None)
        await second.term() if hasattr(second, "reply") else await second.term("not for us")
        events = []
        for _ in range(2):
            await first.in_progress()
            events.append(event(await pulled.fetch(1)))
        await first.ack()
        return [*events, event(await pulled.fetch(1, expires=2))]

    theirs, ours = both(port, script)
    assert ours == theirs == [([], "expiry")] * 3


def test_max_ack_pending_limits_the_records_that_are_out(port: int) -> None:
    async def script(pulled: Pulled) -> list[Event]:
        await pulled.put("a", "0", "1", "2", "3")
        out = await pulled.fetch(4)
        await out.records[0].ack()
        return [event(out), event(await pulled.fetch(1))]

    theirs, ours = both(port, script, max_ack_pending=2)
    assert ours == theirs == [(["0", "1"], "expiry"), (["2"], "count")]


def test_deleting_a_consumer_ends_a_waiting_fetch(port: int) -> None:
    async def script(pulled: Pulled) -> list[Event]:
        waiting = asyncio.create_task(pulled.fetch(1, expires=30))
        await asyncio.sleep(0.5)
        await pulled.delete()
        return [event(await waiting)]

    theirs, ours = both(port, script)
    assert ours == theirs == [([], "consumer deleted")]


def test_consume_gives_all_in_order_while_they_are_acknowledged(port: int) -> None:
    """A buffer of two, asked for again and again, as ADR-37's algorithm does."""

    async def script(pulled: Pulled) -> list[Event]:
        await pulled.put("a", *(str(number) for number in range(20)))
        seen: list[str] = []
        while len(seen) < 20:
            data, _ = await ack_all(await pulled.fetch(2))
            seen += data
        return [tuple(seen)]

    theirs, ours = both(port, script)
    assert ours == theirs


def test_differs_nak_also_voids_later_records_of_the_key(port: int) -> None:
    """JetStream knows no keys: the later record is done, and comes before the one that it follows."""

    async def script(pulled: Pulled) -> list[Event]:
        await pulled.put("a", "0", "1")
        first, second = (await pulled.fetch(2)).records
        await first.nak(delay=0.3)
        await second.ack()
        return [await ack_all(await pulled.fetch(2))]

    theirs, ours = both(port, script)
    assert theirs == [(["0"], "expiry")]
    assert ours == [(["0", "1"], "count")]


def test_differs_a_record_larger_than_max_bytes(port: int) -> None:
    """JetStream ends the fetch with a status, again and again; sublet gives it alone."""

    async def script(pulled: Pulled) -> list[Event]:
        await pulled.put("a", "x" * 500)
        return [(len(data), ended) for data, ended in [await ack_all(await pulled.fetch(max_bytes=300))]]

    theirs, ours = both(port, script)
    assert theirs == [(0, "bytes")]
    assert ours == [(1, "bytes")]
