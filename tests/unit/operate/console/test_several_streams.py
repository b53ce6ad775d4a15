"""The console over an application of two streams: a shard is named in full, or asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.protocol.stream_key import StreamKey, in_stream
from sublet.reading.several_streams import with_streams
from sublet.settings import StreamChoice
from sublet.testing.memory import FakeClock, MemoryLeaseTable, MemoryStream, MemoryStreams

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld

SHARD = "shardId-000000000000"
READY = 'data-said="ready"'


@pytest.fixture
def world() -> ConsoleWorld:
    """`orders` reads the streams bills and events, each with a shard, a lease and a record of a minute ago."""
    clock = FakeClock()
    world = ConsoleWorld(clock=clock)
    orders = world.orders
    streams = {name: MemoryStream(1, clock=world.clock, name=name) for name in ("bills", "events")}
    for name, stream in streams.items():
        stream.put("key", f"a record of {name}".encode())
    names = {name: in_stream(StreamKey.of(stream.describe().identity), SHARD) for name, stream in streams.items()}
    table = MemoryLeaseTable([Lease(name, TRIM_HORIZON) for name in names.values()], several=True)
    clock.advance(timedelta(minutes=1))
    choice = StreamChoice.parse("bills,events")
    orders.opened = replace(
        orders.opened,
        stream=None,
        several=tuple(streams),
        settings=replace(orders.opened.settings, stream="", streams=choice),
        ports=with_streams(replace(orders.opened.ports, table=table), MemoryStreams(choice, streams)),
    )
    return world


def full_names(world: ConsoleWorld) -> list[str]:
    return sorted(lease.lease_key for lease in world.orders.opened.ports.table.scan().leases)


def test_every_page_shows_both_streams(world: ConsoleWorld) -> None:
    client = ConsoleClient(world)
    for page in ("", "/workers", "/hash-keys", "/positions", "/control", "/failures", "/records"):
        reply = client.get(f"/a/orders{page}")
        assert reply.status_code == 200, page
        assert "streams bills, events" in reply.text
    shown = client.until("/a/orders", full_names(world)[1])
    assert full_names(world)[0] in shown


def test_records_are_those_of_the_shard_that_is_named_in_full(world: ConsoleWorld) -> None:
    client = ConsoleClient(world)
    for name, full in zip(("bills", "events"), full_names(world), strict=True):
        assert f"a record of {name}" in client.get(f"/a/orders/records?shard={full}").text
    assert "is ambiguous: the application reads" in unescape(client.get(f"/a/orders/records?shard={SHARD}").text)


def test_a_seek_moves_both_streams_or_the_shard_that_is_named(world: ConsoleWorld) -> None:
    client = ConsoleClient(world)
    plan = client.post("/a/orders/positions/seek", to="latest").url.path
    page = client.until(plan, READY)
    assert all(name in page for name in full_names(world))
    assert "sublet seek latest --application orders --execute" in page
    bills, events = full_names(world)
    plan = client.post("/a/orders/positions/seek", to="latest", shards=events).url.path
    page = client.until(plan, READY)
    assert (events in page, bills in page) == (True, False)
    plan = client.post("/a/orders/positions/seek", to="latest", shards=SHARD).url.path
    client.until(plan, "is ambiguous: the application reads")


def test_a_skip_asks_which_shard_is_meant(world: ConsoleWorld) -> None:
    client = ConsoleClient(world)
    plan = client.post("/a/orders/control/skip", shards=SHARD).url.path
    client.until(plan, "is ambiguous: the application reads")
    events = full_names(world)[1]
    plan = client.post("/a/orders/control/skip", shards=events).url.path
    assert f"sublet skip --application orders {events} --records 1 --execute" in client.until(plan, "18 bytes")


def test_the_hash_key_map_has_a_named_bar_for_each_stream(world: ConsoleWorld) -> None:
    table = world.orders.opened.ports.table
    keys = HashKeyRange(0, HASH_KEY_MAX)
    ranged = MemoryLeaseTable(
        [Lease(lease.lease_key, TRIM_HORIZON, hash_key_range=keys) for lease in table.scan().leases],
        several=True,
    )
    opened = world.orders.opened
    world.orders.opened = replace(opened, ports=replace(opened.ports, table=ranged))
    shown = ConsoleClient(world).until("/a/orders/hash-keys", "<figcaption>")
    assert shown.count("<svg viewBox") == 2
    assert shown.index("<b>bills</b>") < shown.index("<b>events</b>")
