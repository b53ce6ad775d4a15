"""The owner of a hot shard gives its other shards away, so that the hot one has the whole worker.

16 shards, 4 workers, one shard with 80% of the bytes: docs/hot-shards.md has these figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from sublet.settings import Balance, Mode, Settings

from tests.doubles.balance_world import BalanceWorld, cluster

SHARDS, WORKERS, TOTAL, HOT = 16, 4, 1000.0, "00000"
"""TOTAL: KB a second of all shards together."""
RATES = {f"{number:05}": TOTAL * (0.8 if number == 0 else 0.2 / (SHARDS - 1)) for number in range(SHARDS)}
CAPACITY = 0.82 * TOTAL
"""KB a second that one worker handles: enough for the hot shard alone, and for little besides."""
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Outcome:
    highest_share: float
    leases_beside_it: int
    lag_after_an_hour: timedelta


def after_settling(balance: Balance) -> Outcome:
    settings = Settings(application="orders", stream="orders", mode=Mode.CONTINUOUS, balance=balance)
    world = BalanceWorld(SHARDS, settings, cluster("a", WORKERS), rates=RATES)
    world.give(world.sublet, SHARDS // WORKERS)
    world.settle()
    load, owner = world.load(), world.table[HOT].lease_owner
    assert owner is not None
    return Outcome(max(load.values()) / TOTAL, world.held()[owner] - 1, lag(load[owner] - RATES[HOT]))


def lag(beside: float) -> timedelta:
    """Of the hot shard after an hour: its worker's other shards have small pages, which wait for no others."""
    missing = max(0.0, RATES[HOT] - (CAPACITY - beside)) * HOUR.total_seconds()
    return timedelta(seconds=missing / RATES[HOT])


def test_hot_shard_shares_its_worker_when_balanced_by_leases() -> None:
    outcome = after_settling(Balance.LEASE)
    assert outcome.highest_share == pytest.approx(0.84)
    assert outcome.leases_beside_it == 3
    assert outcome.lag_after_an_hour > timedelta(seconds=80)


def test_hot_shard_has_its_worker_alone_when_balanced_by_throughput() -> None:
    outcome = after_settling(Balance.THROUGHPUT)
    assert outcome.highest_share == pytest.approx(0.8)
    assert outcome.leases_beside_it == 0
    assert outcome.lag_after_an_hour == timedelta(0)
