"""What is concluded about a lease that this look has not observed, because its sighting is missing, has another
counter, or comes from a clock that is ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.liveness import Sighting, ahead_by, idle_time, is_expired, next_expiry, observe
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease

from tests.doubles.engine_world import moment

HELD = Lease("shardId-000000000000", Checkpoint("100"), 7, "app-lambda-0")
NOW = moment("2026-01-31T08:00:00")


@pytest.mark.parametrize(("ahead", "is_right"), [(0, True), (2, True), (-2, True), (2.1, False), (-40, False)])
def test_clock_counts_as_right_unless_the_services_time_differs(ahead: float, is_right: bool) -> None:
    by_us = NOW + timedelta(seconds=ahead)
    assert ahead_by(by_us, NOW) == timedelta(seconds=0 if is_right else ahead)
    assert ahead_by(by_us, None) == timedelta(0)


def test_sighting_from_the_future_counts_as_seen_now() -> None:
    """By a clock that was an hour ahead, just before its process died: its leases would be unread for an hour."""
    ahead = {HELD.lease_key: Sighting(7, "app-lambda-0", NOW + timedelta(hours=1))}
    seen = observe(ahead, [HELD], NOW)
    assert seen == {HELD.lease_key: Sighting(7, "app-lambda-0", NOW)}
    assert is_expired(HELD, seen, NOW + timedelta(seconds=31), timedelta(seconds=30))


def test_unseen_lease_is_alive_with_an_owner_and_idle_without() -> None:
    assert idle_time(HELD, {}, NOW) == timedelta(0)
    assert idle_time(replace(HELD, lease_owner=None), {}, NOW) == timedelta.max


def test_a_counter_that_has_moved_since_is_alive() -> None:
    seen = {HELD.lease_key: Sighting(6, "app-lambda-0", NOW - timedelta(hours=1))}
    assert idle_time(HELD, seen, NOW) == timedelta(0)


def test_a_manager_whose_clock_was_ahead_has_seen_it_now() -> None:
    seen = {HELD.lease_key: Sighting(7, "app-lambda-0", NOW + timedelta(minutes=1))}
    assert idle_time(HELD, seen, NOW) == timedelta(0)


def test_an_unowned_lease_whose_owners_crash_is_watched() -> None:
    free = replace(HELD, lease_owner=None)
    assert observe({}, [free], NOW) == {}
    assert observe({}, [replace(free, crashes=1)], NOW) == {HELD.lease_key: Sighting(7, None, NOW)}


def test_a_lease_that_another_has_now_has_moved_for_an_hour() -> None:
    def looked(before: Mapping[str, Sighting], lease: Lease, minutes: int) -> Mapping[str, Sighting]:
        return observe(before, [lease], NOW + timedelta(minutes=minutes))

    first = looked({}, HELD, 0)
    taken = looked(first, replace(HELD, lease_owner="app-lambda-1", lease_counter=8), 1)
    later = looked(taken, replace(HELD, lease_owner="app-lambda-1", lease_counter=9), 60)
    at_last = looked(later, replace(HELD, lease_owner="app-lambda-1", lease_counter=10), 61)
    moved = [seen[HELD.lease_key].moved_at for seen in (first, taken, later, at_last)]
    assert moved == [None, NOW + timedelta(minutes=1), NOW + timedelta(minutes=1), None]


def test_released_and_reacquired_lease_has_not_moved() -> None:
    free = observe({HELD.lease_key: Sighting(7, "app-lambda-0", NOW)}, [replace(HELD, lease_owner=None)], NOW)
    taken = observe(free, [replace(HELD, lease_owner="app-lambda-1", lease_counter=8)], NOW)
    assert free[HELD.lease_key].moved_at is taken[HELD.lease_key].moved_at is None


def test_next_expiry_is_a_failover_time_after_the_first_silent_owner_was_seen() -> None:
    failover_time = timedelta(seconds=30)

    def expiry(lease: Lease, *ago: float) -> timedelta | None:
        seen = [Sighting(7, lease.lease_owner, NOW - timedelta(seconds=seconds)) for seconds in ago]
        leases = [replace(lease, lease_key=f"shard {n}") for n in range(len(seen))]
        sightings = {one.lease_key: sighting for one, sighting in zip(leases, seen, strict=True)}
        at = next_expiry(leases, sightings, NOW, failover_time)
        assert at is None or any(is_expired(one, sightings, at, failover_time) for one in leases)
        return None if at is None else at - NOW - timedelta.resolution

    assert expiry(HELD, 10, 20, 0) == timedelta(seconds=10)
    assert expiry(HELD, 30) == timedelta(0), "exactly that long is alive"
    assert expiry(HELD, 31) is None, "it is lost already"
    assert expiry(HELD, 0) is None, "it has just been heard"
    assert expiry(HELD, -5) is None, "by a clock that was ahead"
    assert expiry(replace(HELD, lease_owner=None), 10) is None
    assert next_expiry([HELD], {}, NOW, timedelta(seconds=30)) is None, "no tick has looked at it before"
    assert expiry(replace(HELD, checkpoint=SHARD_END), 10) is None
