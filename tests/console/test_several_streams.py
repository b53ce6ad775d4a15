"""The pages of an application of several streams in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.stream_key import StreamKey, shard_in_stream
from sublet.reading.several_streams import with_streams
from sublet.settings import StreamChoice
from sublet.testing.memory import MemoryLeaseTable, MemoryStream, MemoryStreams

from tests.console.chromium import PHONE, WIDE, Served, opened, served, violations
from tests.doubles.console_world import ConsoleWorld

SHARDS = {"audit-europe-with-a-long-name": 1, "orders": 8, "payments": 3}


@pytest.fixture
def console() -> Iterator[Served]:
    world = ConsoleWorld()
    application = world.orders
    streams = {name: MemoryStream(number, clock=world.clock, name=name) for name, number in SHARDS.items()}
    leases = [
        Lease(
            shard.shard_id,
            TRIM_HORIZON,
            3,
            "orders-0",
            hash_key_range=shard.hash_key_range,
            throughput_kbps=20.0 if number else 90.0,
        )
        for stream in streams.values()
        for number, shard in enumerate(
            shard_in_stream(StreamKey.of(stream.describe().identity), each) for each in stream.list_shards()
        )
    ]
    choice = StreamChoice.parse(",".join(streams))
    ports = replace(application.opened.ports, table=MemoryLeaseTable(leases, several=True))
    application.opened = replace(
        application.opened,
        stream=None,
        several=tuple(streams),
        settings=replace(application.opened.settings, stream="", streams=choice),
        ports=with_streams(ports, MemoryStreams(choice, streams)),
    )
    with served(world) as made:
        world.console.watching.look("orders")
        yield made


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])
def test_each_stream_has_a_bar_with_its_name(
    browser: Browser, console: Served, scheme: str, width: dict[str, int]
) -> None:
    with opened(browser, console, width=width, scheme=scheme) as page:
        page.goto(f"{console.origin}/a/orders/hash-keys")
        expect(page.locator("figure.hash-map")).to_have_count(len(SHARDS))
        expect(page.locator("figure.hash-map figcaption")).to_contain_text(
            [f"{name} {number} shard" for name, number in SHARDS.items()]
        )
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width["width"]
