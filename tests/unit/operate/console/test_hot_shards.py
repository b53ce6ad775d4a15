"""A shard's page shows the verdict of `sublet hot`; the hash-key map and the application's page link to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from html import unescape

from sublet.errors import StreamAccessDenied
from sublet.operate.console.watching import HEAT_EVERY
from sublet.operate.hot_shards import key_text, peak_text
from sublet.operate.rules.hot_shards import HotShard
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import HashKeyRange
from sublet.testing.memory import FakeClock

from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld
from tests.doubles.traffic import Traffic, sketch_of

BUSY, SALTED, CALM = (f"shardId-{number:012}" for number in range(3))


def hot_world() -> ConsoleWorld:
    """Many keys in the first shard, one in the second, and little in the third."""
    world = ConsoleWorld(shards=3)
    traffic = {
        BUSY: [Traffic("k", 900, 800, keys=300)],
        SALTED: [Traffic("<customer>", 900, 800)],
        CALM: [Traffic("c", 300, 50)],
    }
    for shard in world.orders.stream.list_shards():
        keys = HashKeyRange(*shard.hash_key_range)
        world.orders.sketches[shard.shard_id] = sketch_of(shard.shard_id, traffic[shard.shard_id], 20, keys)
        world.orders.table.put_row(encode_row(Lease(shard.shard_id, TRIM_HORIZON, 1, "w", hash_key_range=keys)))
    return world


def page_of(world: ConsoleWorld, path: str) -> str:
    return unescape(ConsoleClient(world).get(f"/a/orders{path}").text)


def test_shard_page_shows_what_sublet_hot_shows() -> None:
    world = hot_world()
    for shard in world.orders.heat():
        page = page_of(world, f"/shards/{shard.shard_id}")
        said = [f"{shard.verdict}: {shard.because}", shard.then]
        assert shard.peak is not None
        said += [peak_text(shard.peak), *(f"{key_text(key)}</th>" for key in shard.keys)]
        said += [f"{key.at_least:.0%}</td>" for key in shard.keys]
        for text in said:
            assert text in page, (text, page)


def test_hot_shard_page_shows_keys_price_and_command() -> None:
    world = hot_world()
    split, salt = page_of(world, f"/shards/{BUSY}"), page_of(world, f"/shards/{SALTED}")
    assert "split: many keys bring the load" in split
    assert f"aws kinesis split-shard --stream-name events --shard-to-split {BUSY}" in split
    assert "+$10.95 a month" in split
    assert "one key: one partition key brings at least" in salt
    assert '<th scope="row" class="mono"><customer></th>' in salt, "unescaped here, and only here"
    assert "split-shard" not in salt


def test_names_are_escaped() -> None:
    assert "<customer>" not in ConsoleClient(hot_world()).get(f"/a/orders/shards/{SALTED}").text


def test_the_map_and_the_applications_page_lead_to_the_verdict() -> None:
    world = hot_world()
    for path in ("/hash-keys", ""):
        page = page_of(world, path)
        assert f'href="/a/orders/shards/{SALTED}#load"' in page
        assert "one key" in page
    page = page_of(world, "/hash-keys")
    assert page.index(f'data-key="{SALTED}"') < page.index(f'data-key="{CALM}"')
    assert "2 are hot" in page


def test_a_shard_without_a_rate_is_on_the_map_if_it_is_hot() -> None:
    world = hot_world()
    assert all(shard.kbps is None for shard in world.console.watching.look("orders").status.shards)  # type: ignore[union-attr]
    assert f'data-key="{SALTED}"' in page_of(world, "/hash-keys")


def test_shard_page_shows_the_reason_when_its_load_may_not_be_read() -> None:
    def refused() -> Sequence[HotShard]:
        raise StreamAccessDenied("no permission to list the shards")

    world = hot_world()
    world.orders.opened = replace(world.orders.opened, heat=refused)
    page = page_of(world, f"/shards/{BUSY}")
    assert "Not known: no permission to list the shards" in page
    assert "Checkpoint" in page


def test_load_is_read_once_a_minute_while_the_page_is_open() -> None:
    world, asked = hot_world(), list[int]()

    def heat() -> Sequence[HotShard]:
        asked.append(1)
        return world.orders.heat()

    world.orders.opened = replace(world.orders.opened, heat=heat)
    assert isinstance(world.clock, FakeClock)
    watching = world.console.watching
    watching.seen("orders")
    before = len(asked)
    watching.look("orders")
    assert len(asked) == before
    world.clock.advance(HEAT_EVERY + timedelta(seconds=1))
    watching.look("orders")
    assert len(asked) == before + 1
    world.clock.advance(timedelta(hours=1))
    watching._look(watching._watched["orders"])
    assert len(asked) == before + 1, "nobody has the page open"


def test_shard_page_shows_no_load_without_a_stream() -> None:
    world = hot_world()
    world.orders.opened = replace(world.orders.opened, heat=None)
    assert 'id="load"' not in page_of(world, f"/shards/{BUSY}")


def test_a_shard_of_which_only_its_row_is_known_says_so() -> None:
    world = hot_world()
    world.orders.sketches.clear()
    row = world.orders.table.get(BUSY)
    assert isinstance(row, Lease)
    world.orders.table.put_row(encode_row(replace(row, throughput_kbps=800.0)))
    page = page_of(world, f"/shards/{BUSY}")
    assert "unknown: its row says only how fast it is read" in page
    assert "on average, by its row" in page
