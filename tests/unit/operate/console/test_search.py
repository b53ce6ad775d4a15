"""Looking for records in all shards at once, within bounds."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from sublet.operate.console import search as searching
from sublet.operate.console.routes import console_app
from sublet.operate.console.search import search
from sublet.operate.decoded_records import DecodedRecord
from sublet.operate.peek import LIMIT, start_at
from sublet.operate.positions.seek_time import place
from sublet.protocol.records import UserRecord

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld
from tests.doubles.engine_world import NO_WAITING, EngineWorld


def world_with_orders() -> ConsoleWorld:
    world = ConsoleWorld(shards=4)
    for number in range(20):
        world.orders.stream.put(f"customer-{number % 10}", f'{{"id": {number}}}'.encode())
    return world


def previews(page: str) -> list[str]:
    return re.findall(r'clip mono">\{&#34;id&#34;: (\d+)\}<', page)


@pytest.mark.parametrize(
    ("query", "ids"),
    [("key=customer-3", {"3", "13"}), ("contains=%3A+17", {"17"}), ("where=id+%3E+17", {"18", "19"})],
)
def test_records_are_found_in_whichever_shard_they_are(query: str, ids: set[str]) -> None:
    world = world_with_orders()
    before = world.orders.table.rows()
    page = ConsoleClient(world).get(f"/a/orders/records?from=earliest&{query}").text
    assert set(previews(page)) == ids
    assert "4 shards searched" in page
    assert "shardId-00000000000" in page
    assert world.orders.table.rows() == before


def test_search_of_all_shards_says_what_it_needs() -> None:
    client = ConsoleClient(world_with_orders())
    assert "say from when" in client.get("/a/orders/records?key=customer-3").text
    assert "searched" not in client.get("/a/orders/records?from=earliest").text, "nothing is looked for"
    assert "not a position" in client.get("/a/orders/records?key=a&from=nowhere").text


def everything(record: UserRecord) -> DecodedRecord:
    return DecodedRecord(record, None)


def test_search_makes_a_bounded_number_of_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "READS_MAX", 3)
    world = EngineWorld(NO_WAITING)
    world.put(*map(str, range(2_000)))
    result = search(start_at(place("earliest"), world.ports), world.ports, lambda _: None, 10)
    assert (result.records, result.shards, result.left) == ((), 1, 0)
    assert len(world.stream.polls) == 3


def test_search_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LASTS", timedelta(seconds=1))
    world = EngineWorld(NO_WAITING)
    world.put(*map(str, range(2_000)))
    result = search(start_at(place("earliest"), world.ports), world.ports, lambda _: None, 10)
    assert (result.shards, result.left) == (0, 1)
    assert len(world.stream.polls) <= 3


def test_search_reads_no_further_once_its_user_has_left() -> None:
    """The connection is closed during the second read, of up to twelve of each shard."""
    world = world_with_orders()
    stream, reads = world.orders.stream, list[str]()
    real, left = stream.poll, threading.Event()

    def poll(*arguments: Any, **named: Any) -> Any:
        if LIMIT not in (*arguments, *named.values()):  # the look at how shards stand
            return real(*arguments, **named)
        reads.append("read")
        if len(reads) == 2:
            left.set()
        time.sleep(0.2)  # until the console has noticed
        reply: Any = real(*arguments, **named)
        return reply._replace(page=reply.page._replace(records=(), millis_behind_latest=1_000))

    stream.poll = poll  # type: ignore[method-assign]
    key = world.console.access.open_link(world.console.access.new_link())
    assert key is not None

    async def ask() -> None:
        sent = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if sent:
                return sent.pop()
            await asyncio.to_thread(left.wait)
            return {"type": "http.disconnect"}

        async def send(_: Any) -> None: ...

        headers = [(b"host", b"127.0.0.1:8470"), (b"cookie", f"sublet_console_8470={key.key}".encode())]
        path = {"path": "/a/orders/records", "raw_path": b"", "query_string": b"from=earliest&key=nobody"}
        scope = {"type": "http", "method": "GET", "scheme": "http", "root_path": "", "headers": headers, **path}
        await console_app(world.console)(scope, receive, send)

    asyncio.run(ask())
    assert 2 <= len(reads) <= 5, "those that were under way, of four shards"


def test_search_ends_with_as_many_records_as_are_wanted() -> None:
    world = EngineWorld(NO_WAITING)
    world.put(*map(str, range(500)))
    result = search(start_at(place("earliest"), world.ports), world.ports, everything, 5)
    assert [each.decoded.record.data for each in result.records] == [b"0", b"1", b"2", b"3", b"4"]
    assert len(world.stream.polls) == 1


def test_shard_that_has_ended_is_searched_too() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("before the split")
    world.shards.split("shardId-000000000000")
    result = search(start_at(place("earliest"), world.ports), world.ports, everything, 5)
    assert [each.shard_id for each in result.records] == ["shardId-000000000000"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "where",
    [
        '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" =~ "^(a+)+$"',
        'id > 1 # "\nand "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" !~ "^(a+)+$"',
        "1 << 99999999999 > 1",
        "$sum([x for x in $range(1e12)]) > 1",
        "id > 1" + " and id > 1" * 1_000,
    ],
)
def test_condition_that_could_hold_up_the_console_for_ever_is_refused(where: str) -> None:
    """Anybody who may look can ask for it, and a link in a mail can."""
    page = ConsoleClient(world_with_orders()).http.get("/a/orders/records", params={"from": "earliest", "where": where})
    assert "could hold up everybody" in page.text


def test_condition_may_compare_with_any_text() -> None:
    page = ConsoleClient(world_with_orders()).http.get(
        "/a/orders/records", params={"from": "earliest", "where": 'id == 7 and "for $1 =~ # **" == "for $1 =~ # **"'}
    )
    assert previews(page.text) == ["7"]
