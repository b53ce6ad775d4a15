"""The pages of workers, of hash keys and of one shard."""

from __future__ import annotations

from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"


def world_of_two_workers() -> ConsoleWorld:
    world = ConsoleWorld()
    for shard, owner, kbps in ((FIRST, "worker<1>", 90.0), (SECOND, "worker-2", 10.0)):
        keys = next(
            each for each in world.orders.stream.list_shards() if each.shard_id == shard
        ).hash_key_range
        world.orders.table.put_row(
            encode_row(Lease(shard, TRIM_HORIZON, 1, owner, hash_key_range=keys, throughput_kbps=kbps))
        )
    return world


def test_workers_are_shown_with_their_shards_and_the_fair_share() -> None:
    page = ConsoleClient(world_of_two_workers()).get("/a/orders/workers").text
    assert "worker&lt;1&gt;</a>" in page
    assert 'href="/a/orders?q=worker%3C1%3E"' in page
    assert "92.2 kB/s" in page


def test_without_workers_it_says_so() -> None:
    assert "No live worker holds a shard." in ConsoleClient(ConsoleWorld()).get("/a/orders/workers").text


def test_the_hottest_shard_comes_first() -> None:
    page = ConsoleClient(world_of_two_workers()).get("/a/orders/hash-keys").text
    assert page.index(f'data-key="{FIRST}"') < page.index(f'data-key="{SECOND}"')
    assert "none gets 2 times its part of the bytes" in page


def test_rows_without_ranges_draw_no_map() -> None:
    assert "No ranges are known" in ConsoleClient(ConsoleWorld()).get("/a/orders/hash-keys").text


def test_a_shard_shows_its_lease_and_its_family_by_either_s_row() -> None:
    world = world_of_two_workers()
    low, high = world.orders.stream.split(FIRST)
    for child in (low, high):
        world.orders.table.put_row(
            encode_row(Lease(child, TRIM_HORIZON, 0, parent_shard_ids=frozenset({FIRST})))
        )
    client = ConsoleClient(world)
    parent = client.get(f"/a/orders/shards/{FIRST}").text
    assert f"/a/orders/shards/{low}" in parent
    assert f"/a/orders/shards/{high}" in parent
    assert "worker&lt;1&gt;" in parent
    child = client.get(f"/a/orders/shards/{low}").text
    assert f"/a/orders/shards/{FIRST}" in child
    assert "its parents are not finished" in child


def test_a_shard_without_a_lease_is_named() -> None:
    reply = ConsoleClient(ConsoleWorld()).get("/a/orders/shards/shardId-9")
    assert reply.status_code == 400
    assert "orders has no lease of shard shardId-9" in reply.text
