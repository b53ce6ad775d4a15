"""docs/consumer-api.md: each sentence's test exists, and the programs run in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import sublet
from sublet.aio import Consumer
from sublet.testing.memory import FakeClock, MemoryAccount, MemoryStream, memory_ports
from sublet.testing.memory.failure_destination import MemoryDestination
from sublet.testing.turn_taking import TurnTaking

from tests.docs.documents import ROOT, blocks

DOCUMENT = ROOT / "docs" / "consumer-api.md"
PATIENCE = 30
PLAIN, ON_A_LOOP, POISON, PRINTER = [block.text for block in blocks(DOCUMENT) if "import Consumer" in block.text]


def test_each_sentence_of_adr_37_has_a_test() -> None:
    table = DOCUMENT.read_text().split("<!-- adr-37 -->")[1]
    named = set(re.findall(r"`(test_\w+)`", table))
    there = {
        name
        for folder in ("unit/pull", "unit/decisions", "contract")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named
    assert named - there == set()


@pytest.fixture
def records() -> MemoryStream:
    stream = MemoryStream(name="orders")
    stream.put("customer-7", b"first")
    stream.put("customer-8", b"second")
    return stream


def run(program: str, consumer: Callable[[str, str], Any], **names: Any) -> dict[str, Any]:
    """Run the program with another Consumer than the one that it imports."""
    names = {**names, "Consumer": consumer}
    exec(re.sub(r"^from sublet.* import Consumer$", "", program, flags=re.MULTILINE), names)  # noqa: S102 - our own document
    return names


def test_the_plain_program_runs(records: MemoryStream) -> None:
    seen: list[bytes] = []
    ports = memory_ports(records)
    consumer: sublet.Consumer

    def printed(key: str, data: bytes) -> None:
        seen.append(data)
        if len(seen) == 2:
            consumer.stop()

    def make(application: str, stream: str, **options: Any) -> sublet.Consumer:
        nonlocal consumer
        consumer = sublet.Consumer(application, stream, ports=ports, **options)
        return consumer

    run(PLAIN, make, print=printed)
    assert seen == [b"first", b"second"]


def test_a_record_that_fails_for_ever_is_set_aside_and_those_behind_it_are_handled(
    records: MemoryStream,
) -> None:
    records.put("customer-7", b"third")
    clock, destination = FakeClock(), MemoryDestination()
    ports = memory_ports(records, clock=clock, tasks=TurnTaking(clock), destination=destination)
    seen: list[bytes] = []

    def consumer(application: str, stream: str, **settings: Any) -> sublet.Consumer:
        made.append(sublet.Consumer(application, stream, ports=ports, **settings))
        return made[0]

    def handle(record: sublet.Record) -> None:
        seen.append(record.data)
        if record.data == b"first":
            raise ValueError("poison")
        if record.data == b"third":
            made[0]._group.entered.end()  # type: ignore[union-attr]

    made: list[sublet.Consumer] = []
    run(POISON, consumer)["handle_all"](handle)
    assert seen == [b"first", b"second", *[b"first"] * 4, b"third"]
    assert [batch.records[0].data for batch in destination.taken] == [b"first"]


def test_the_program_of_a_context_runs() -> None:
    (program,) = (block.text for block in blocks(DOCUMENT) if "import connect" in block.text)
    clock = FakeClock()
    context = sublet.Context(MemoryAccount(clock=clock, tasks=TurnTaking(clock)))
    names: dict[str, Any] = {"connect": lambda: context}
    exec(program.replace("from sublet import connect", ""), names)  # noqa: S102 - our own document
    assert names["record"] is None
    assert context.stream("orders").consumers() == ["orders-audit"]


@pytest.mark.parametrize("program", [ON_A_LOOP, PRINTER])
def test_the_programs_on_a_loop_run(program: str, records: MemoryStream) -> None:
    ports = memory_ports(records)

    def make(application: str, stream: str, **options: Any) -> Consumer:
        return Consumer(application, stream, ports=ports, **options)

    names = run(program, make, print=print)

    async def main() -> None:
        running = asyncio.create_task(names["audit"]() if "audit" in names else names["Printer"]().run())
        while not any(lease.actual_owner for lease in ports.table.scan().leases):  # noqa: ASYNC110 - what threads do
            await asyncio.sleep(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert {lease.actual_owner for lease in ports.table.scan().leases} == {None}
