"""The pages of applications: worst first, live, and honest about what is not known."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from sublet.errors import LeaseTableUnavailable
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.lease_row import encode_row
from sublet.testing.memory import FakeClock

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld

SHARDS = [f"shardId-{number:012}" for number in range(3)]


def world_with_a_stopped_shard() -> ConsoleWorld:
    """The third shard has a record that waits for an hour, without an owner."""
    world = ConsoleWorld("orders", "billing", shards=3)
    for name, application in world.applications.items():
        for shard in SHARDS[:2]:
            owner = f"{name}-worker-{shard[-1]}"
            application.table.put_row(encode_row(Lease(shard, TRIM_HORIZON, 1, owner)))
    world.orders.stream.put("c", b"c", (1 << 128) - 1)
    assert isinstance(world.clock, FakeClock)
    world.clock.advance(timedelta(hours=1))
    return world


def shown_shards(page: str) -> list[str]:
    return re.findall(r'data-key="(shardId-\d+)"', page)


def test_an_application_shows_its_shards_worst_first() -> None:
    page = ConsoleClient(world_with_a_stopped_shard()).get("/a/orders").text
    assert shown_shards(page) == [SHARDS[2], SHARDS[0], SHARDS[1]]
    assert "records wait, and no owner has written to the lease" in page
    assert "1 STOPPED, 2 OK" in page


@pytest.mark.parametrize(
    ("query", "shards"),
    [
        ("sort=shard", SHARDS),
        ("status=unhealthy", SHARDS[2:]),
        ("status=OK", SHARDS[:2]),
        ("q=WORKER-1", SHARDS[1:2]),
        ("q=000000002", SHARDS[2:]),
        ("sort=owner", SHARDS),
        ("sort=nonsense&page=99999999&status=nonsense", []),
        ("page=7", [SHARDS[2], SHARDS[0], SHARDS[1]]),
    ],
)
def test_page_shows_the_wanted_shards_alone(query: str, shards: list[str]) -> None:
    page = ConsoleClient(world_with_a_stopped_shard()).get(f"/a/orders?{query}").text
    assert shown_shards(page) == shards


def test_live_request_gets_only_the_changing_part() -> None:
    client = ConsoleClient(world_with_a_stopped_shard())
    live = client.get("/a/orders", **{"X-Sublet-Live": "1"}).text
    assert live.startswith('<div id="live"')
    assert "<html" not in live
    assert shown_shards(live) == shown_shards(client.get("/a/orders").text)


def test_applications_come_worst_first() -> None:
    client = ConsoleClient(world_with_a_stopped_shard())
    client.get("/a/orders")
    client.get("/a/billing")
    page = client.get("/").text
    assert re.findall(r'<tr data-key="(\w+)"', page) == ["orders", "billing"]
    assert "1 of 2 applications need attention" in page


def test_the_only_application_is_shown_at_once() -> None:
    assert ConsoleClient(ConsoleWorld()).get("/").url.path == "/a/orders"


def test_ended_shards_are_left_out_unless_they_are_asked_for() -> None:
    world = ConsoleWorld(shards=3)
    world.orders.table.put_row(encode_row(Lease(SHARDS[0], SHARD_END, 1)))
    client = ConsoleClient(world)
    assert shown_shards(client.get("/a/orders").text) == SHARDS[1:]
    assert shown_shards(client.get("/a/orders?status=ENDED").text) == SHARDS[:1]


def test_a_row_that_is_no_lease_is_named_and_escaped() -> None:
    world = ConsoleWorld()
    world.orders.table.put_row({"leaseKey": {"S": "<script>"}, "checkpoint": {"S": "what"}})
    page = ConsoleClient(world).get("/a/orders").text
    assert "Rows that cannot be read" in page
    assert "<code>&lt;script&gt;</code>" in page


def test_an_owner_s_name_is_never_markup() -> None:
    world = ConsoleWorld(shards=1)
    world.orders.table.put_row(encode_row(Lease(SHARDS[0], TRIM_HORIZON, 1, '"><script>x')))
    page = ConsoleClient(world).get("/a/orders").text
    assert "<script>x" not in page
    assert "&#34;&gt;&lt;script&gt;x" in page


def test_a_look_that_fails_says_why_and_the_page_stays() -> None:
    world = ConsoleWorld()
    world.orders.stream.delete()
    page = ConsoleClient(world).get("/a/orders").text
    assert "The last look failed: stream events has been deleted" in page


def test_page_shows_the_last_look_as_stale_with_its_age_while_looks_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> LeaseScan:
        raise LeaseTableUnavailable("the lease table keeps refusing")

    clock = FakeClock()
    world = ConsoleWorld("orders", "billing", clock=clock)
    client = ConsoleClient(world)
    assert 'class="stale"' not in client.get("/a/orders").text
    clock.advance(timedelta(seconds=30))
    monkeypatch.setattr(world.orders.table, "scan", refuse)
    world.console.watching.look("orders")
    page = client.get("/a/orders").text
    assert 'id="live" class="stale"' in page
    assert "The last look failed: the lease table keeps refusing" in page
    assert "What follows is 30s old." in page
    assert f"/a/orders/shards/{SHARDS[0]}" in page
    assert "What follows is 30s old." in client.get("/").text


@pytest.mark.parametrize("control", ["\u202e", "\u2066", "\u200f", "\x07", "\x9b"])
def test_a_control_in_a_name_is_shown_and_not_obeyed(control: str) -> None:
    """One of writing direction would show `gpj.exe` as `exe.jpg`."""
    world = ConsoleWorld(shards=1)
    world.orders.table.put_row(encode_row(Lease(SHARDS[0], TRIM_HORIZON, 1, f"worker{control}1")))
    for path in ("/a/orders", f"/a/orders/shards/{SHARDS[0]}", "/a/orders/workers"):
        page = ConsoleClient(world).get(path).text
        assert control not in page
        assert f"worker{ascii(control)[1:-1]}1" in page


def test_a_thousand_shards_come_by_the_hundred() -> None:
    world = ConsoleWorld(shards=1)
    for number in range(1000):
        world.orders.table.put_row(encode_row(Lease(f"shardId-{number:012}", SHARD_END, 1)))
    client = ConsoleClient(world)
    first, last = (client.get(f"/a/orders?status=ENDED&sort=shard&page={page}").text for page in (1, 10))
    assert len(shown_shards(first)) == len(shown_shards(last)) == 100
    assert shown_shards(last)[-1] == f"shardId-{999:012}"
    assert "page 10 of 10" in last


def test_the_tree_shows_children_under_their_parents_and_ended_ones_too() -> None:
    world = ConsoleWorld(shards=3)
    low, high = world.orders.stream.split(SHARDS[1])
    world.orders.table.put_row(encode_row(Lease(SHARDS[1], SHARD_END, 1)))
    for child in (low, high):
        parents = frozenset({SHARDS[1]})
        world.orders.table.put_row(encode_row(Lease(child, TRIM_HORIZON, 0, parent_shard_ids=parents)))
    page = ConsoleClient(world).get("/a/orders?sort=tree").text
    assert shown_shards(page) == [SHARDS[0], SHARDS[1], low, high, SHARDS[2]]
    assert page.count('class="indent"') == 2
