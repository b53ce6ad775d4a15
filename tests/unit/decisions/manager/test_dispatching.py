"""Dispatches are remembered well enough that a scan older than the worker's acquire starts no second worker."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.decisions.manager.dispatching import (
    WORKER_STARTS_WITHIN,
    DispatchedWorker,
    after_choices,
    asked_of,
    may_steal_as_it_stands,
    under_way,
)
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
FREE = Lease("shardId-0", TRIM_HORIZON, lease_counter=7)
ACQUIRED = replace(FREE, lease_counter=8, lease_owner="app-lambda-0")
SENT = {FREE.lease_key: DispatchedWorker(FREE.fence, "app-lambda-0", is_steal=False, at=NOW)}
OWNED = replace(FREE, lease_owner="java")
BEATEN = replace(OWNED, lease_counter=9)
STEAL = {FREE.lease_key: DispatchedWorker(OWNED.fence, "app-lambda-0", is_steal=True, at=NOW)}
TO_CONTINUE = {FREE.lease_key: DispatchedWorker(OWNED.fence, "app-lambda-0", is_steal=False, at=NOW)}
OURS = replace(OWNED, lease_owner="app-lambda-0")
FROM_ITSELF = {FREE.lease_key: DispatchedWorker(OURS.fence, "app-lambda-0", is_steal=True, at=NOW)}
FREE_TOO = replace(FREE, lease_key="shardId-1")


def test_a_dispatch_is_remembered_though_its_worker_has_come_until_it_lapses() -> None:
    """The next scan may be older than the acquire, and show the lease as it was."""
    soon = NOW + timedelta(seconds=2)
    assert under_way(SENT, [ACQUIRED], soon) == {}
    kept = after_choices(SENT, [], soon)
    assert under_way(kept, [FREE], soon) == SENT
    lapsed = NOW + WORKER_STARTS_WITHIN
    assert (under_way(SENT, [FREE], lapsed), after_choices(SENT, [], lapsed)) == ({}, {})


def test_a_newer_dispatch_of_the_lease_takes_its_place() -> None:
    again = replace(ACQUIRED, lease_owner=None, lease_counter=9)
    soon = NOW + timedelta(seconds=2)
    kept = after_choices(SENT, [LeaseChoice(again, "app-lambda-0", ClaimReason.FREE)], soon)
    assert kept[FREE.lease_key] == DispatchedWorker(again.fence, "app-lambda-0", is_steal=False, at=soon)
    kept = after_choices(SENT, [LeaseChoice(again, "app-lambda-0", ClaimReason.STEAL)], soon)
    assert kept[FREE.lease_key].is_steal


def test_a_thief_is_under_way_as_long_as_the_owner_is_the_same() -> None:
    """Who goes on heartbeating, or gives it back for the thief."""
    assert under_way(STEAL, [BEATEN], NOW) == STEAL
    assert under_way(STEAL, [replace(BEATEN, lease_owner=None)], NOW) == STEAL
    assert under_way(STEAL, [replace(BEATEN, lease_owner="other")], NOW) == {}


@pytest.mark.parametrize(
    ("row", "dispatched_at", "may"),
    [
        (BEATEN, NOW, True),
        (replace(BEATEN, lease_owner=None), NOW, True),
        (replace(BEATEN, lease_owner="other"), NOW, False),
        (replace(BEATEN, checkpoint_owner="java"), NOW, False),
        (BEATEN, NOW - timedelta(seconds=30), False),
        (BEATEN, None, False),
    ],
    ids=[
        "heartbeaten",
        "given back",
        "another's",
        "draining",
        "long ago",
        "by an earlier version's lease manager",
    ],
)
def test_a_lease_is_stolen_as_it_stands_from_the_owner_that_was_seen(
    row: Lease, dispatched_at: datetime | None, may: bool
) -> None:
    assert may_steal_as_it_stands(OWNED.fence, row, dispatched_at, NOW, timedelta(seconds=30)) is may


@pytest.mark.parametrize(
    ("own", "sent", "row", "now", "is_asked"),
    [
        ("java", STEAL, BEATEN, NOW, True),
        ("other", STEAL, BEATEN, NOW, False),
        ("java", {}, BEATEN, NOW, False),
        ("java", SENT, BEATEN, NOW, False),
        ("java", TO_CONTINUE, BEATEN, NOW, False),
        ("app-lambda-0", STEAL, replace(BEATEN, lease_owner="app-lambda-0"), NOW, False),
        ("app-lambda-0", FROM_ITSELF, OURS, NOW, False),
        ("other", STEAL, replace(BEATEN, lease_owner="other"), NOW, False),
        ("java", STEAL, BEATEN, NOW + WORKER_STARTS_WITHIN, False),
    ],
    ids=[
        "asked",
        "another's",
        "no worker is started",
        "no steal",
        "of it as it is",
        "its own",
        "to itself",
        "it has changed hands",
        "long ago",
    ],
)
def test_owner_is_asked_for_a_lease_with_a_dispatched_steal(
    own: str, sent: dict[str, DispatchedWorker], row: Lease, now: datetime, is_asked: bool
) -> None:
    assert asked_of([own], sent, [row, FREE_TOO], now) == (frozenset({row.lease_key}) if is_asked else frozenset())
