"""The pages of workers, of hash keys and of one shard."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import timedelta

from sublet.errors import CheckRefused
from sublet.operate.cli.main import parser
from sublet.operate.formatting import time_text
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.control import Control, Order, Pause
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.testing.memory import FakeClock

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"


def world_of_two_workers() -> ConsoleWorld:
    world = ConsoleWorld()
    for shard, owner, kbps in ((FIRST, "worker<1>", 90.0), (SECOND, "worker-2", 10.0)):
        keys = next(each for each in world.orders.stream.list_shards() if each.shard_id == shard).hash_key_range
        world.orders.table.put_row(
            encode_row(Lease(shard, TRIM_HORIZON, 1, owner, hash_key_range=keys, throughput_kbps=kbps))
        )
    return world


def test_workers_are_shown_with_their_shards_and_the_fair_share() -> None:
    page = ConsoleClient(world_of_two_workers()).get("/a/orders/workers").text
    assert "worker&lt;1&gt;</a>" in page
    assert 'href="/a/orders?q=worker%3C1%3E"' in page
    assert "92.2 kB/s" in page


def test_a_long_name_is_shortened_in_its_middle_and_its_title_has_all_of_it() -> None:
    world, long = world_of_two_workers(), f"ip-10-0-0-1.{'sub.' * 60}example.com:5f0c2d1e-worker"
    world.orders.table.put_row(encode_row(Lease(FIRST, TRIM_HORIZON, 1, long)))
    for page in ("/a/orders", "/a/orders/workers"):
        shown = ConsoleClient(world).get(page).text
        assert f'title="{long}"' in shown
        assert "ip-10-0-0-1.sub...:5f0c2d1e-worker<" in shown
        assert f"{long}<" not in shown


def test_workers_page_says_that_no_worker_is_live() -> None:
    assert "No live worker holds a shard." in ConsoleClient(ConsoleWorld()).get("/a/orders/workers").text


def test_the_hottest_shard_comes_first() -> None:
    page = ConsoleClient(world_of_two_workers()).get("/a/orders/hash-keys").text
    assert page.index(f'data-key="{FIRST}"') < page.index(f'data-key="{SECOND}"')
    assert "none is hot" in page


def test_rows_without_ranges_draw_no_map() -> None:
    assert "No ranges are known" in ConsoleClient(ConsoleWorld()).get("/a/orders/hash-keys").text


def test_a_shard_shows_its_lease_and_its_family_by_either_s_row() -> None:
    world = world_of_two_workers()
    low, high = world.orders.stream.split(FIRST)
    for child in (low, high):
        world.orders.table.put_row(encode_row(Lease(child, TRIM_HORIZON, 0, parent_shard_ids=frozenset({FIRST}))))
    client = ConsoleClient(world)
    parent = client.get(f"/a/orders/shards/{FIRST}").text
    assert f"/a/orders/shards/{low}" in parent
    assert f"/a/orders/shards/{high}" in parent
    assert "worker&lt;1&gt;" in parent
    child = client.get(f"/a/orders/shards/{low}").text
    assert f"/a/orders/shards/{FIRST}" in child
    assert "the parent shards are not finished" in child


def test_a_shard_without_a_lease_is_named() -> None:
    reply = ConsoleClient(ConsoleWorld()).get("/a/orders/shards/shardId-9")
    assert reply.status_code == 400
    assert "orders has no lease of shard shardId-9" in reply.text


def test_a_look_that_failed_says_nothing_about_a_lease() -> None:
    world = ConsoleWorld()
    world.orders.stream.delete()
    reply = ConsoleClient(world).get(f"/a/orders/shards/{FIRST}")
    assert reply.status_code == 400
    assert "has been deleted" in reply.text
    assert "no lease" not in reply.text


def test_failing_shards_are_listed_with_a_way_past_the_record() -> None:
    world = ConsoleWorld()
    number = world.orders.stream.put("a", b"x", 0)
    world.orders.table.put_row(
        encode_row(Lease(FIRST, Checkpoint(number), 4, "worker-1", attempts=3, holder="i/1", holder_counter=4))
    )
    page = ConsoleClient(world).get("/a/orders/failures").text
    assert f'data-key="{FIRST}"' in page
    assert f'data-key="{SECOND}"' not in page
    assert '<td class="num">3</td>' in page
    assert f"/a/orders/control?shard={FIRST}" in page


def test_a_handler_that_fails_is_named_wherever_its_shard_is_shown() -> None:
    world = ConsoleWorld()
    failure = HandlerFailure("ValueError", 14, world.clock.now() - timedelta(minutes=9))
    world.orders.table.put_row(encode_row(Lease(FIRST, TRIM_HORIZON, 4, "worker-1", failing=failure)))
    client = ConsoleClient(world)
    said = f"handler raises ValueError, attempt 14, since {time_text(failure.since)}"
    for path in ("/a/orders", f"/a/orders/shards/{FIRST}", "/a/orders/failures"):
        assert said in client.get(path).text
    assert said not in client.get(f"/a/orders/shards/{SECOND}").text


def test_a_paused_shard_s_page_says_until_when() -> None:
    world = world_of_two_workers()
    until = world.clock.now() + timedelta(hours=1)
    assert world.orders.opened.ports.control is not None
    pause = Pause(Order.PAUSE, world.clock.now(), "jo", until)
    assert world.orders.opened.ports.control.keep_control(Control(leases={FIRST: pause}))
    assert f"until {time_text(until)}" in ConsoleClient(world).get(f"/a/orders/shards/{FIRST}").text


def test_failures_page_counts_set_aside_batches_and_shows_the_redrive_command() -> None:
    world = ConsoleWorld()
    client = ConsoleClient(world)
    assert "Nothing waits there." in client.get("/a/orders/failures").text
    place = replace(
        world.orders.opened.aside,
        waiting=lambda: SetAsideWaiting(
            7, world.clock.now() - timedelta(days=3), world.clock.now() + timedelta(days=11)
        ),
    )
    other = ConsoleWorld()
    other.orders.opened = replace(other.orders.opened, aside=place)
    page = ConsoleClient(other).get("/a/orders/failures").text
    assert "7 batches wait for a redrive" in page
    assert "The oldest is 3d old, and is deleted at 2026-02-11T08:00:00Z." in page
    shown = re.search(r'class="command">([^<]+)<', page)
    assert shown is not None
    assert parser().parse_args(shlex.split(shown[1])[1:]).command.name == "redrive"


def test_unreadable_destination_hides_no_shard_of_the_failures_page() -> None:
    def refused() -> SetAsideWaiting:
        raise CheckRefused("these credentials lack sqs:GetQueueAttributes")

    world = ConsoleWorld()
    world.orders.opened = replace(world.orders.opened, aside=replace(world.orders.opened.aside, waiting=refused))
    page = ConsoleClient(world).get("/a/orders/failures").text
    assert "these credentials lack sqs:GetQueueAttributes" in page
    assert "no shard fails" in page


def test_shard_page_tells_who_moved_the_shard() -> None:
    world = world_of_two_workers()
    client = ConsoleClient(world)
    world.orders.stream.put("a", b"x", 0)
    assert isinstance(world.clock, FakeClock)
    world.clock.advance(timedelta(minutes=1))
    path = client.post("/a/orders/positions/seek", to="latest", shards=FIRST).url.path
    client.until(path, "1 skips")
    client.post(path)
    client.until(path, "1 lease moved.")
    page = client.get(f"/a/orders/shards/{FIRST}").text
    assert "seek to latest by <b>ada@laptop</b>" in page
    assert "TRIM_HORIZON → …" in page
    assert "History" not in client.get(f"/a/orders/shards/{FIRST}", **{"X-Sublet-Live": "1"}).text
