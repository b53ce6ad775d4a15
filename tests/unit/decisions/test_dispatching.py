"""What is remembered of dispatches: enough that a scan older than the worker's acquire sends nobody twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sublet.decisions.choose_leases import Choice, ClaimReason
from sublet.decisions.dispatching import (
    WORKER_STARTS_WITHIN,
    Dispatched,
    after_choices,
    may_steal_as_it_stands,
    under_way,
)
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
FREE = Lease("shardId-0", TRIM_HORIZON, lease_counter=7)
ACQUIRED = replace(FREE, lease_counter=8, lease_owner="app-lambda-0")
SENT = {FREE.lease_key: Dispatched(FREE.fence, "app-lambda-0", is_steal=False, at=NOW)}


def test_a_dispatch_is_remembered_though_its_worker_has_come_until_it_lapses() -> None:
    """The next scan may be older than the acquire, and show the lease as it was."""
    soon = NOW + timedelta(seconds=2)
    assert under_way(SENT, [ACQUIRED], soon) == {}
    kept = after_choices(SENT, [], soon)
    assert under_way(kept, [FREE], soon) == SENT
    assert after_choices(SENT, [], NOW + WORKER_STARTS_WITHIN) == {}


def test_a_newer_dispatch_of_the_lease_takes_its_place() -> None:
    again = replace(ACQUIRED, lease_owner=None, lease_counter=9)
    soon = NOW + timedelta(seconds=2)
    kept = after_choices(SENT, [Choice(again, "app-lambda-0", ClaimReason.FREE)], soon)
    assert kept[FREE.lease_key].seen == again.fence


def test_a_thief_is_under_way_as_long_as_the_owner_is_the_same() -> None:
    """Who goes on heartbeating."""
    owned = replace(FREE, lease_owner="java")
    sent = {FREE.lease_key: Dispatched(owned.fence, "app-lambda-0", is_steal=True, at=NOW)}
    beaten = replace(owned, lease_counter=9)
    assert under_way(sent, [beaten], NOW) == sent
    assert under_way(sent, [replace(beaten, lease_owner="other")], NOW) == {}


def test_a_claim_that_does_not_say_when_it_was_made_is_not_stolen_as_it_stands() -> None:
    """By a lease manager of an earlier version."""
    owned = replace(FREE, lease_owner="java")
    for at, may in ((NOW, True), (None, False)):
        assert may_steal_as_it_stands(owned.fence, owned, at, NOW, timedelta(seconds=30)) is may
