"""The examples of the pull API, over memory."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sublet
from aiohttp import web
from aiohttp.test_utils import TestServer
from httpx import ASGITransport, AsyncClient
from sublet.aio import Consumer, Record
from sublet.errors import LeaseTableNotFound
from sublet.ports import Ports
from sublet.testing.memory import FakeClock, MemoryAccount, MemoryLeaseTable, MemoryStream, memory_ports
from sublet.testing.turn_taking import TurnTaking

from examples.pulling import cron, forward, service
from examples.pulling.batch_consumer import BatchConsumer

PATIENCE = 30
NOTEBOOK = Path(__file__).parents[2] / "examples" / "pulling" / "notebook.ipynb"


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
        app = service.app_of(Consumer("view", "orders", ports=ports))
        asked = AsyncClient(transport=ASGITransport(app), base_url="http://service")
        async with app.router.lifespan_context(app), asked:
            while (answer := await asked.get("/orders/key-4")).status_code == 404:  # noqa: ASYNC110 - what threads do
                await asyncio.sleep(0.01)
            assert answer.json() == "4"
            assert (await asked.get("/ready")).status_code == 200

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert owners(ports) == {None}
    with sublet.Consumer("view", "orders", ports=ports).fetch(5, expires=1) as records:
        assert list(records) == [], "each is checkpointed"


def test_a_service_whose_stream_is_gone_is_not_ready(ports: Ports) -> None:
    async def main() -> None:
        app = service.app_of(Consumer("view", "orders", ports=ports))
        asked = AsyncClient(transport=ASGITransport(app), base_url="http://service")
        async with asked:
            assert (await asked.get("/ready")).status_code == 503, "not started"
            async with app.router.lifespan_context(app):
                assert (await asked.get("/ready")).status_code == 200
                assert isinstance(ports.table, MemoryLeaseTable)
                ports.table.delete()
                while (await asked.get("/ready")).status_code == 200:  # noqa: ASYNC110 - what threads do
                    await asyncio.sleep(0.01)

    with pytest.raises(LeaseTableNotFound):
        asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_requests_are_made_at_once_and_one_that_fails_is_made_again(ports: Ports) -> None:
    posted: list[bytes] = []

    async def main() -> None:
        all_posted = asyncio.Event()

        async def answer(request: web.Request) -> web.Response:
            posted.append(await request.read())
            if len(set(posted)) == 5:
                all_posted.set()
            return web.Response(status=503 if posted[-1] == b"0" else 200)

        app = web.Application()
        app.router.add_post("/orders", answer)
        async with TestServer(app) as server:
            url = str(server.make_url("/orders"))
            forwarding = asyncio.create_task(forward.forward(Consumer("audit", "orders", ports=ports), url))
            await all_posted.wait()
            forwarding.cancel()
            with suppress(asyncio.CancelledError):
                await forwarding
        async with Consumer("audit", "orders", ports=ports).fetch(1) as records:
            assert (await anext(records)).data == b"0"

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert sorted(set(posted)) == [b"0", b"1", b"2", b"3", b"4"]
    assert len(posted) == len(set(posted)) + posted.count(b"0") - 1, "only that one is made again"


class Batches(BatchConsumer):
    def __init__(self) -> None:
        self.data: list[bytes] = []

    async def process_batch(self, batch: list[Record]) -> None:
        self.data += [record.data for record in batch]
        if len(self.data) >= 5:
            raise KeyError("the sixth is not there")


def test_a_batch_is_done_when_it_is_processed(ports: Ports) -> None:
    batches = Batches()
    with pytest.raises(KeyError):
        asyncio.run(asyncio.wait_for(batches.run(Consumer("batches", "orders", ports=ports)), PATIENCE))
    assert batches.data == [b"%d" % number for number in range(5)]
    assert owners(ports) == {None}


def test_the_notebook_runs_from_its_first_cell_to_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    context = sublet.Context(MemoryAccount(clock=clock, tasks=TurnTaking(clock)))
    orders = context.create_stream("orders", shards=2)
    for number in range(5):
        orders.put(f"key-{number % 2}", b"%d" % number)
    monkeypatch.setattr(sublet, "connect", lambda: context)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            exec("".join(cell["source"]), names)  # noqa: S102 - our own notebook
    assert names["keys"] == {"key-0": 3, "key-1": 2}
    assert orders.consumers() == []
