"""The records browser shows the next records as text, and none of their content as markup."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from datetime import datetime, timedelta
from html import unescape

import msgspec
import pytest
from sublet.operate.console.pages.records import hex_dump
from sublet.payloads.decoding import decoder_of
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import LATEST, SHARD_END, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.settings.payload_format import parsed_format
from sublet.testing.memory import FakeClock

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld

SHARD = "shardId-000000000000"
ATTACK = b"<script>alert(1)</script><img src=x onerror=alert(2)>"


def test_a_payload_a_key_and_a_wish_are_never_markup() -> None:
    world = ConsoleWorld(shards=1)
    world.orders.stream.put("<b>key</b>", ATTACK)
    client = ConsoleClient(world)
    page = client.get(f"/a/orders/records?shard={SHARD}&from=earliest").text
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;b&gt;key" in page
    wish = client.get("/a/orders/records?shard=%22%3E%3Cscript%3Ealert(3)&key=%22%3E%3Cscript%3E").text
    for text in (page, wish):
        assert "<script>" not in text.replace('<script src="/static/console.js" defer></script>', "")
        assert "<img" not in text
        assert "<b>key" not in text


def test_records_page_expands_aggregates_behind_the_checkpoint() -> None:
    world = ConsoleWorld(shards=1)
    world.orders.stream.put("a", b"one")
    number = world.orders.stream.put(
        "a", aggregate([("a", None, b"two"), ("b", None, b"three"), ("a", None, b'{"n": 4}')])
    )
    world.orders.table.put_row(encode_row(Lease(SHARD, Checkpoint(number, 0), 3)))
    before = world.orders.table.rows()
    page = ConsoleClient(world).get(f"/a/orders/records?shard={SHARD}").text
    assert ">two<" not in page
    assert ">three<" in page
    assert "{\n  &#34;n&#34;: 4\n}" in page
    assert page.count("(in an aggregate)") == 2
    assert world.orders.table.rows() == before


@pytest.mark.parametrize(("start_at", "is_noted"), [(None, True), (FakeClock().now(), False)])
def test_a_lease_at_latest_that_was_not_opened_is_noted(start_at: datetime | None, is_noted: bool) -> None:
    world = ConsoleWorld(shards=1)
    world.orders.stream.put("a", b"one")
    world.orders.table.put_row(encode_row(Lease(SHARD, LATEST, 3, start_at=start_at)))
    client, note = ConsoleClient(world), "is at LATEST, and sublet has not opened it"
    assert (note in client.get(f"/a/orders/records?shard={SHARD}").text) is is_noted
    assert note not in client.get(f"/a/orders/records?shard={SHARD}&from=earliest").text


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        ("from=earliest", {"red", "blue"}),
        ("from=earliest&key=k2", {"blue"}),
        ("from=earliest&contains=re", {"red"}),
        ("from=earliest&n=1", {"red"}),
        ("from=earliest&n=x", {"red", "blue"}),
    ],
)
def test_records_page_shows_matching_records_alone(wish: str, found: set[str]) -> None:
    world = ConsoleWorld(shards=1)
    world.orders.stream.put("k1", b"red")
    world.orders.stream.put("k2", b"blue")
    page = ConsoleClient(world).get(f"/a/orders/records?shard={SHARD}&{wish}").text
    assert {each for each in ("red", "blue") if f'<pre tabindex="0">{each}</pre>' in page} == found


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ("shard=shardId-9", "shard shardId-9 has no lease in orders"),
        (f"shard={SHARD}&from=soon", "is not a position"),
        ("shard=shardId-9&from=earliest", "no shard shardId-9"),
    ],
)
def test_records_page_shows_why_a_position_cannot_be_read(wish: str, says: str) -> None:
    assert says in ConsoleClient(ConsoleWorld(shards=1)).get(f"/a/orders/records?{wish}").text


def test_a_shard_that_is_handled_to_its_end_has_no_next_record() -> None:
    world = ConsoleWorld(shards=1)
    world.orders.table.put_row(encode_row(Lease(SHARD, SHARD_END, 3)))
    assert "No record was found" in ConsoleClient(world).get(f"/a/orders/records?shard={SHARD}").text


def test_control_characters_are_shown_as_dots_and_bytes_as_hexadecimal() -> None:
    world = ConsoleWorld(shards=1)
    world.orders.stream.put("a", b"a\x00\x1b\xffb")
    page = ConsoleClient(world).get(f"/a/orders/records?shard={SHARD}&from=earliest").text
    assert "\x1b" not in page
    assert "\x00" not in page
    assert "61 00 1b ff 62" in page


def test_a_hex_dump_has_sixteen_bytes_a_line() -> None:
    first, second = hex_dump(bytes(range(60, 77))).split("\n")
    assert first == "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK"
    assert second.split() == ["00000010", "4c", "L"]


def test_records_page_reads_on_from_the_last_records_time() -> None:
    world = ConsoleWorld(shards=1)
    assert isinstance(world.clock, FakeClock)
    for data in (b"one", b"two", b"three"):
        world.orders.stream.put("k", data)
        world.clock.advance(timedelta(minutes=1))
    client = ConsoleClient(world)
    first = client.get(f"/a/orders/records?shard={SHARD}&from=earliest&n=2").text
    link = re.search(r'<a href="([^"]+)">Read on', first)
    assert link is not None
    second = client.get(f"/a/orders/records{unescape(link[1])}").text
    assert ['<pre tabindex="0">' + each + "</pre>" in second for each in ("one", "two", "three")] == [
        False,
        True,
        True,
    ]
    assert "Read on" not in client.get(f"/a/orders/records?shard={SHARD}&from=earliest&n=4").text


def test_a_large_record_is_cut_and_says_so() -> None:
    world = ConsoleWorld(shards=1)
    world.orders.stream.put("k", b"x" * 50_000)
    page = ConsoleClient(world).get(f"/a/orders/records?shard={SHARD}&from=earliest").text
    assert "Text (the first 16.4 kB)" in page
    assert "Bytes (the first 1,024)" in page
    assert page.count("x" * 1000) <= 17


def test_records_page_shows_the_fields_of_the_format_that_the_console_was_told() -> None:
    world = ConsoleWorld(shards=1)
    fields = msgspec.msgpack.encode({"price": 10.5, "country": "<DE>"})
    for data in (fields, b"\xc1<", gzip.compress(fields)):
        world.orders.stream.put("a", data)
    world.console = replace(world.console, decode=decoder_of(parsed_format("msgpack")))
    page = ConsoleClient(world).get(f"/a/orders/records?shard={SHARD}&from=earliest").text
    assert page.count("&#34;country&#34;: &#34;&lt;DE&gt;&#34;\n") == 2
    assert "not MessagePack: " in page


def test_records_page_selects_by_fields_and_says_what_it_could_not_judge() -> None:
    world = ConsoleWorld(shards=1)
    for data in (b'{"price": 11}', b'{"price": 9}', gzip.compress(b'{"price": 12}'), b"text"):
        world.orders.stream.put("a", data)
    client = ConsoleClient(world)
    page = client.get(f"/a/orders/records?shard={SHARD}&from=earliest&where=price+%3E+10").text
    assert [f"&#34;price&#34;: {price}\n" in page for price in (11, 9, 12)] == [True, False, True]
    assert "The condition could not be applied to 1 records, of the first: not an object with fields" in page
    wrong = client.get(f"/a/orders/records?shard={SHARD}&from=earliest&where=price+%3E").text
    assert "a condition such as price &gt; 10" in wrong
