"""Which shards the log reports as hot."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sublet.decisions.load.busy_shards import NAMED, BusyShard, busy_shards
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease

NOW = datetime(2026, 11, 23, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def leases(*rates: int | None, age: timedelta = MINUTE) -> list[Lease]:
    """Shards that are read at so many bytes a second."""
    return [
        Lease(str(number), TRIM_HORIZON, lease_owner="w", lag_report=LagReport(NOW - age, bytes_per_second=rate))
        for number, rate in enumerate(rates)
    ]


def named(found: tuple[BusyShard, ...]) -> list[str]:
    return [busy.lease_key for busy in found]


def test_a_shard_that_gets_twice_the_average_is_named_with_its_figures() -> None:
    [busy] = busy_shards(leases(50_000, 400_000, 50_000, 50_000), NOW)
    assert busy == BusyShard("1", 400_000, 2.9, 0.38)


def test_evenly_loaded_and_idle_shards_are_not_named() -> None:
    assert not busy_shards(leases(300_000, 310_000, 290_000), NOW)
    assert not busy_shards(leases(10, 90_000, 10), NOW)
    assert not busy_shards([], NOW)


def test_shard_near_its_quota_is_named_even_beside_others() -> None:
    assert named(busy_shards(leases(700_000, 800_000), NOW)) == ["1", "0"]
    many_records = replace(leases(40_000)[0], lag_report=LagReport(NOW, None, None, 40_000, 700.0))
    assert named(busy_shards([many_records], NOW)) == ["0"]


def test_shards_that_have_ended_or_whose_rate_is_old_or_not_known_are_not_named() -> None:
    [hot] = leases(900_000)
    assert not busy_shards([replace(hot, checkpoint=SHARD_END)], NOW)
    assert not busy_shards(leases(900_000, age=timedelta(hours=1)), NOW)
    assert not busy_shards(leases(None), NOW)


def test_busy_shards_names_a_few_at_most() -> None:
    assert len(busy_shards(leases(*[900_000] * 50), NOW)) == NAMED
