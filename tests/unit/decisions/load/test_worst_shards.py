"""Which shards have their own metrics: those with the most lag, and those with the most bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sublet.decisions.load.worst_shards import WORST, worst_shards
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def lease(number: int, lag: timedelta | None = None, rate: int | None = None, ago: timedelta = SECOND) -> Lease:
    report = LagReport(NOW - ago, lag, None, rate)
    return Lease(f"shardId-{number:03}", Checkpoint("1"), lag_report=report)


def test_worst_shards_are_the_ten_of_most_lag_and_the_ten_of_most_bytes() -> None:
    leases = [lease(n, timedelta(seconds=2**n), 2 ** (25 - n)) for n in range(25)]
    worst = worst_shards(leases, NOW)
    assert sorted(worst.lags) == [f"shardId-{n:03}" for n in range(15, 25)]
    assert sorted(worst.bytes) == [f"shardId-{n:03}" for n in range(10)]
    assert worst.bytes["shardId-000"] == 60 * 2**25


def test_worst_lag_grows_while_nothing_is_reported() -> None:
    leases = [lease(0, 5 * SECOND, ago=10 * SECOND), lease(1, timedelta(0), ago=10 * SECOND), lease(2, None)]
    assert worst_shards(leases, NOW).lags == {"shardId-000": 15_000, "shardId-001": 0}


def test_a_rate_of_long_ago_and_leases_without_a_report_or_at_their_end_do_not_count() -> None:
    ended = Lease("ended", SHARD_END, lag_report=LagReport(NOW, SECOND, None, 5))
    worst = worst_shards([lease(0, None, 7, ago=timedelta(hours=1)), Lease("java", Checkpoint("1")), ended], NOW)
    assert (worst.lags, worst.bytes) == ({}, {})


def test_small_changes_do_not_change_which_shards_are_chosen() -> None:
    """Each that is chosen within an hour is billed for it."""
    first = worst_shards([lease(n, rate=1_100 + n % 7) for n in range(100)], NOW)
    later = worst_shards([lease(n, rate=1_100 + (n + 3) % 7) for n in range(100)], NOW)
    assert len(first.bytes) == WORST
    assert first.bytes.keys() == later.bytes.keys()
