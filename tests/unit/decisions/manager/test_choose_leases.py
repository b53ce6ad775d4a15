"""Choosing leases beyond the scenarios of tests/scenarios/choose_leases: the state that is reported, and what chance
decides.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

from sublet.decisions.manager.choose_leases import ChosenLeases, FleetBalance, choose_leases
from sublet.decisions.manager.fleet_kind import Fleet, FleetKind
from sublet.decisions.manager.liveness import Sighting
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.settings import Mode, Settings
from sublet.testing.memory.clock import BEGINNING

SETTINGS = Settings(application="orders", stream="events", mode=Mode.CONTINUOUS)
FREE = [Lease(f"shardId-{n}", TRIM_HORIZON) for n in range(2)]
OWNED = [Lease(f"shardId-{owner}", TRIM_HORIZON, lease_owner=owner) for owner in ("me", "another")]
ENDED = Lease("shardId-9", SHARD_END)


def chosen(*leases: Lease, chance: Random, settings: Settings = SETTINGS) -> ChosenLeases:
    just_now = BEGINNING - timedelta(seconds=1)
    sightings = {lease.lease_key: Sighting(lease.lease_counter, lease.actual_owner, just_now) for lease in leases}
    return choose_leases(leases, sightings, BEGINNING, chance, settings, ["me"])


def test_the_choice_says_how_the_fleet_stood_before() -> None:
    standing = chosen(*FREE, *OWNED, ENDED, chance=Random(0)).standing
    assert standing == FleetBalance(leases=4, available=2, workers=2, target=2, held=1)


LED = Fleet(FleetKind.LED, frozenset({"another"}))
NAMED = Lease("shardId-8", TRIM_HORIZON, lease_owner="me")
"""By a leader, and no window of ours has it yet."""


def test_a_leader_s_assignment_counts_as_held_and_an_unseen_lease_as_another_s() -> None:
    found = choose_leases([NAMED, *OWNED], {}, BEGINNING, Random(0), SETTINGS, ["me"], fleet=LED)
    assert [choice.lease for choice in found.choices] == [NAMED, OWNED[0]]
    assert found.standing.held == 2
    assert found.standing.leases == 3


def test_free_lease_is_chosen_by_chance() -> None:
    """Workers that tick at the same moment would all send for the same one."""
    one_each = replace(SETTINGS, max_leases_for_worker=1)
    taken = [chosen(*FREE, chance=Random(seed), settings=one_each).choices for seed in range(20)]
    assert {choice.lease.lease_key for (choice,) in taken} == {lease.lease_key for lease in FREE}


def test_worker_of_ours_with_fewer_leases_takes_the_free_ones() -> None:
    held = [Lease(f"shardId-9{n}", TRIM_HORIZON, lease_owner="us-1") for n in range(10)]
    seen = {lease.lease_key: Sighting(0, lease.actual_owner, BEGINNING) for lease in [*held, *FREE]}
    found = choose_leases([*held, *FREE], seen, BEGINNING, Random(0), SETTINGS, ["us-0", "us-1"])
    assert [choice.worker_id for choice in found.choices] == ["us-0", "us-0"]
