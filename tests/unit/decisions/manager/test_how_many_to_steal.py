"""How many leases are stolen from which worker, where KCL's own tests leave it open."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from sublet.decisions.manager.choose_leases import choose_leases
from sublet.decisions.manager.liveness import Sighting
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.settings import Balance, Mode, Settings

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
MANY = Settings(
    application="app", stream="events", mode=Mode.CONTINUOUS, max_leases_to_steal_at_one_time=10, leases_to_acquire=10
)


def stolen(
    held: dict[str, int], settings: Settings, worker_ids: tuple[str, ...] = ("us",), **of_first: Any
) -> list[tuple[str | None, str]]:
    """From whom, by whom. `held`: how many leases each live worker has; `of_first`: changes of the first one's, but for
    one.
    """
    leases = [
        Lease(f"shardId-{owner}-{number}", TRIM_HORIZON, lease_owner=owner)
        for owner, count in held.items()
        for number in range(count)
    ]
    first = next(iter(held))
    leases = [
        replace(each, **of_first) if each.lease_owner == first and not each.lease_key.endswith("-0") else each
        for each in leases
    ]
    sightings = {
        each.lease_key: Sighting(each.lease_counter, each.lease_owner, NOW - timedelta(seconds=1)) for each in leases
    }
    choices = choose_leases(leases, sightings, NOW, Random(0), settings, worker_ids).choices
    return [(choice.lease.lease_owner, choice.worker_id) for choice in choices]


@pytest.mark.parametrize(
    ("because", "held", "changes", "from_whom"),
    [
        ("no more than a worker may have", {"a": 10, "us": 2}, {"max_leases_for_worker": 3}, {"a": 1}),
        ("also without a fair share", {"a": 10, "us": 2}, {"max_leases_for_worker": 3, "fair_share": False}, {"a": 1}),
        ("without a fair share, to the middle", {"a": 3, "b": 2}, {"fair_share": False}, {"a": 1}),
        ("the victim keeps its own fair share", {"a": 6, "b": 6}, {}, {"a": 2}),
        ("one of a victim at its share, if we are two short", {"a": 3, "b": 3, "c": 3, "us": 1}, {}, {"a": 1}),
        ("and one alone, however short we are", {"a": 4, "b": 4, "c": 4, "d": 4, "us": 0}, {}, {"a": 1}),
        ("none if we have our share", {"a": 6, "us": 4, "b": 1, "c": 1}, {}, {}),
    ],
)
def test_steal_takes_this_many_from_each_owner(
    because: str, held: dict[str, int], changes: dict[str, Any], from_whom: dict[str, int]
) -> None:
    found = stolen(held, replace(MANY, **changes))
    assert Counter(owner for owner, _ in found) == Counter(from_whom), because


def test_steal_takes_none_from_a_victim_that_is_not_the_busiest() -> None:
    """The busiest of those that may be stolen from is not always the busiest."""
    assert stolen({"x": 9, "a": 2}, MANY, checkpoint_owner="x") == [("x", "us")]
    assert stolen({"us-0": 10, "a": 3}, MANY, ("us-0", "us-1")) == []


def test_a_victim_that_nothing_is_left_of_makes_way_for_the_next() -> None:
    """All but one of its leases are being handed over."""
    one = replace(MANY, max_leases_to_steal_at_one_time=1)
    found = stolen({"x": 9, "a": 8}, one, ("us-0", "us-1"), checkpoint_owner="x")
    assert found == [("x", "us-0"), ("a", "us-1")]


def test_each_of_ours_counts_what_the_one_before_it_stole_once() -> None:
    one = replace(MANY, max_leases_to_steal_at_one_time=1)
    assert stolen({"z": 8, "b": 6}, one, ("us-0", "us-1")) == [("z", "us-0"), ("z", "us-1")]


def test_a_worker_that_gets_a_lease_of_another_group_steals_none_in_its_own() -> None:
    one = replace(MANY, max_leases_to_steal_at_one_time=1, balance=Balance.GROUP)
    held = {"a:0": 8, "b:us": 0, "b:1": 4}
    assert stolen(held, one, ("b:us",)) == [("a:0", "b:us")]
