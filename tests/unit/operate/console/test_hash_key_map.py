"""The hash-key map draws a bar for each shard, by its load compared with its part of the hash keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sublet.decisions.status.fleet_status import fleet_status
from sublet.decisions.status.shard_status import ShardStatus
from sublet.decisions.status.status_rules import Status
from sublet.operate.console.hash_key_map import COLUMNS, HEIGHT, WIDTH, bars_of, columns_of, maps_of
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.protocol.stream_key import StreamKey, in_stream
from sublet.settings import Settings

SETTINGS = Settings(application="orders", stream="events")
NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)


def shards_of(*parts: tuple[int, float | None]) -> list[ShardStatus]:
    """Shards side by side. Each: how many sixteenths of the hash keys, and KB a second."""
    leases, at = [], 0
    for number, (size, kbps) in enumerate(parts):
        keys = HashKeyRange(at << 124, ((at + size) << 124) - 1)
        leases.append(Lease(f"shardId-{number:012}", TRIM_HORIZON, 1, "w", hash_key_range=keys, throughput_kbps=kbps))
        at += size
    return list(fleet_status(LeaseScan(tuple(leases)), NOW, SETTINGS).shards)


def test_a_shard_is_hot_that_gets_twice_its_part_of_the_bytes() -> None:
    wide, hot, narrow = bars_of(shards_of((8, 100.0), (4, 260.0), (4, 40.0)))
    assert (wide.x, wide.width, wide.is_hot) == (0.0, WIDTH / 2, False)
    assert hot.load == pytest.approx(2.6)
    assert hot.is_hot
    assert hot.height == HEIGHT
    assert narrow.load == pytest.approx(0.4)


def test_load_is_unknown_without_rates() -> None:
    bars = bars_of(shards_of((8, None), (8, None)))
    assert [(bar.load, bar.height, bar.is_hot) for bar in bars] == [(None, 0.0, False)] * 2


def test_children_that_wait_and_shards_that_have_ended_are_left_out() -> None:
    first, waiting, ended, unknown = shards_of((4, 1.0), (4, 1.0), (4, 1.0), (4, 1.0))
    shards = [
        first,
        replace(waiting, waits_for=frozenset({"p"})),
        replace(ended, status=Status.ENDED),
        replace(unknown, hash_key_range=None),
    ]
    assert [bar.shard for bar in bars_of(shards)] == [first]


def test_many_shards_are_drawn_together_with_the_worst_word_and_the_hottest_load() -> None:
    number = 5000
    size = (HASH_KEY_MAX + 1) // number
    template = shards_of((16, 10.0))[0]
    shards = [
        replace(
            template,
            shard_id=f"shardId-{at:012}",
            status=Status.OK,
            hash_key_range=HashKeyRange(at * size, (at + 1) * size - 1),
        )
        for at in range(number)
    ]
    shards[2500] = replace(shards[2500], status=Status.STALLED, kbps=100.0)
    columns = columns_of(bars_of(shards))
    assert len(columns) <= COLUMNS + 1
    odd = [column for column in columns if column.status is Status.STALLED]
    assert [column.is_hot for column in odd] == [True]
    assert sum(column.is_hot for column in columns) == 1
    assert columns[-1].x + columns[-1].width == pytest.approx(WIDTH, abs=1)


def test_each_of_several_streams_has_its_own_bars_and_its_own_even_part() -> None:
    """The busy stream does not make hot shards of the quiet one's."""
    streams = [StreamKey("123456789012", name, 1_700_000_000) for name in ("payments", "orders")]
    quiet, busy = shards_of((8, 1.0), (8, 1.0)), shards_of((8, 100.0), (8, 500.0))
    shards = [
        replace(shard, shard_id=in_stream(stream, shard.shard_id))
        for stream, its in zip(streams, (quiet, busy), strict=True)
        for shard in its
    ]
    orders, payments = maps_of(shards)
    assert (orders.stream, payments.stream) == ("orders", "payments")
    assert [bar.load for bar in payments.bars] == pytest.approx([1.0, 1.0])
    assert [bar.load for bar in orders.bars] == pytest.approx([1 / 3, 5 / 3])
    assert [(bar.x, bar.width) for bar in payments.bars] == [(0.0, WIDTH / 2), (WIDTH / 2, WIDTH / 2)]
    assert len(orders.columns) == len(payments.columns) == 2


def test_streams_that_had_the_same_name_are_told_apart_by_their_creation() -> None:
    old, new = (StreamKey("123456789012", "orders", epoch) for epoch in (1_700_000_000, 1_700_003_600))
    (shard,) = shards_of((16, 1.0))
    shards = [replace(shard, shard_id=in_stream(stream, shard.shard_id)) for stream in (new, old)]
    assert [each.stream for each in maps_of(shards)] == [
        "orders, created 2023-11-14 22:13:20",
        "orders, created 2023-11-14 23:13:20",
    ]


def test_a_stream_whose_creation_is_not_known_is_told_apart_by_its_key() -> None:
    """KCL's applications may name any number instead of the creation."""
    keys = StreamKey("123456789012", "orders", 1), StreamKey("210987654321", "orders", 1)
    (shard,) = shards_of((16, 1.0))
    shards = [replace(shard, shard_id=in_stream(stream, shard.shard_id)) for stream in keys]
    assert [each.stream for each in maps_of(shards)] == ["123456789012:orders:1", "210987654321:orders:1"]


def test_single_stream_has_one_map_without_a_name() -> None:
    (only,) = maps_of(shards_of((8, 1.0), (8, 9.0)))
    assert (only.stream, len(only.bars)) == (None, 2)
