"""Choosing leases: some leases are never chosen, and a fleet settles in balance."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice, choose_leases
from sublet.decisions.manager.group_balance import group_of
from sublet.decisions.manager.liveness import Sighting, is_expired
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease
from sublet.settings import Balance, Mode, Settings

from tests.doubles.java_taker import JavaSettings, to_steal, to_take

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
CONTINUOUS = Settings(application="app", stream="stream", mode=Mode.CONTINUOUS)
OURS = ("us-0", "us-1")

leases_of = st.builds(
    lambda owner, switch, ended, parents: (owner, switch, ended, parents),
    st.sampled_from([None, None, "us-0", "us-1", "w1", "w2", "w3"]),
    st.sampled_from([None, None, None, "w4"]),
    st.integers(0, 4).map(lambda n: n == 0),
    st.sets(st.integers(0, 24), max_size=1),
)


@st.composite
def tables(draw: st.DrawFn) -> list[Lease]:
    drawn = draw(st.lists(leases_of, max_size=25))
    return [
        Lease(
            f"{n:02}",
            SHARD_END if ended else Checkpoint("5"),
            lease_owner=owner,
            checkpoint_owner=draining if owner else None,
            parent_shard_ids=frozenset(f"{parent:02}" for parent in parents if parent < n),
        )
        for n, (owner, draining, ended, parents) in enumerate(drawn)
    ]


@st.composite
def sightings_of(draw: st.DrawFn, leases: Sequence[Lease]) -> dict[str, Sighting]:
    ages = draw(st.lists(st.sampled_from([None, 0, 30, 31, 90, 91]), min_size=len(leases), max_size=len(leases)))
    return {
        lease.lease_key: Sighting(lease.lease_counter, lease.actual_owner, NOW - timedelta(seconds=age))
        for lease, age in zip(leases, ages, strict=True)
        if age is not None
    }


settings_of = st.builds(
    lambda mode, balance, acquire, most, steal, fair, priority: replace(
        CONTINUOUS,
        mode=mode,
        balance=balance,
        leases_to_acquire=acquire,
        max_leases_for_worker=most,
        max_leases_to_steal_at_one_time=steal,
        fair_share=fair,
        enable_priority_lease_assignment=priority,
    ),
    st.sampled_from(Mode),
    st.sampled_from(Balance),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)


@given(st.data(), tables(), settings_of, st.integers(0, 2**32))
def test_chosen_leases_may_be_taken_within_every_limit(
    data: st.DataObject, leases: list[Lease], settings: Settings, seed: int
) -> None:
    sightings = data.draw(sightings_of(leases))
    malformed = {lease.lease_key for lease in leases if data.draw(st.integers(0, 9)) == 0}
    readable = [lease for lease in leases if lease.lease_key not in malformed]

    def choose(table: Sequence[Lease]) -> tuple[LeaseChoice, ...]:
        return choose_leases(
            table, sightings, NOW, Random(seed), settings, OURS, frozenset({"00", "01"}), malformed
        ).choices

    chosen = choose(readable)
    assert chosen == choose(readable[::-1])
    assert len({choice.lease.lease_key for choice in chosen}) == len(chosen)
    unfinished = malformed | {lease.lease_key for lease in readable if not lease.is_ended}
    stolen = [choice for choice in chosen if choice.why is ClaimReason.STEAL]
    for choice in chosen:
        assert not choice.lease.is_ended
        assert not choice.lease.parent_shard_ids & unfinished
        alive = _is_alive(choice.lease, sightings, settings)
        assert alive == (choice.why is ClaimReason.STEAL)
    assert not stolen or len(stolen) == len(chosen)
    assert not stolen or settings.mode is Mode.CONTINUOUS
    assert not {choice.lease.actual_owner for choice in stolen} & set(OURS)
    held = Counter(
        lease.actual_owner for lease in readable if not lease.is_ended and _is_alive(lease, sightings, settings)
    )
    for worker_id, count in Counter(choice.worker_id for choice in chosen).items():
        assert count <= settings.leases_to_acquire
        assert held[worker_id] + count <= settings.max_leases_for_worker
        assert sum(choice.worker_id == worker_id for choice in stolen) <= settings.max_leases_to_steal_at_one_time


@given(st.lists(st.sampled_from(["us", "w1", "w2", "w3"]), max_size=30), st.integers(1, 20), st.booleans())
def test_stealing_narrows_the_spread(owners: list[str], max_leases_to_steal_at_one_time: int, fair_share: bool) -> None:
    leases = _owned_by(owners)
    settings = replace(
        CONTINUOUS, max_leases_to_steal_at_one_time=max_leases_to_steal_at_one_time, fair_share=fair_share
    )
    before = Counter(owners)
    chosen = choose_leases(leases, {}, NOW, Random(7), settings, ["us"]).choices
    after = Counter(owners)
    for choice in chosen:
        assert choice.lease.lease_owner is not None
        after[choice.lease.lease_owner] -= 1
        after["us"] += 1
    assert len({choice.lease.lease_owner for choice in chosen}) <= 1
    for choice in chosen:
        assert after[str(choice.lease.lease_owner)] >= after["us"]
    fleet = {"us", *owners}
    assert _spread(after, fleet) <= _spread(before, fleet)


@given(
    st.integers(1, 6),
    st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=30),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_a_quiet_fleet_balances_and_then_stops_moving(
    workers: int, owners: list[int | None], max_leases_to_steal_at_one_time: int, fair_share: bool, seed: int
) -> None:
    fleet = [f"w{n}" for n in range(workers)]
    table = dict(enumerate(_owned_by([None if n is None else fleet[n % workers] for n in owners])))
    settings = replace(
        CONTINUOUS, max_leases_to_steal_at_one_time=max_leases_to_steal_at_one_time, fair_share=fair_share
    )
    chance = Random(seed)
    moved = -1
    for _ in range(2 * len(owners) + 2):
        moved = 0
        for worker_id in chance.sample(fleet, workers):
            for choice in choose_leases(list(table.values()), {}, NOW, chance, settings, [worker_id]).choices:
                table[int(choice.lease.lease_key)] = replace(
                    choice.lease, lease_owner=worker_id, lease_counter=choice.lease.lease_counter + 1
                )
                moved += 1
        if not moved:
            break
    assert moved == 0
    assert all(lease.lease_owner for lease in table.values())
    assert _spread(Counter(lease.lease_owner for lease in table.values()), set(fleet)) <= 1


@given(
    st.lists(st.sampled_from(["a:1", "a:2", "a:3", "b:1", "b:2", "c:1"]), max_size=40),
    st.integers(1, 5),
    st.integers(0, 2**32),
)
def test_steal_from_another_group_never_widens_the_spread(
    owners: list[str], max_leases_to_steal_at_one_time: int, seed: int
) -> None:
    """Between groups, not between workers; and a KCL 2.x worker in any of these places steals no more than it would
    have.
    """
    settings = replace(
        CONTINUOUS,
        balance=Balance.GROUP,
        max_leases_to_steal_at_one_time=max_leases_to_steal_at_one_time,
    )
    held = Counter({"a:1": 0, **Counter(owners)})
    before = _group_spread(held, settings)
    target = -(-len(owners) // len(held))
    for choice in choose_leases(_owned_by(owners), {}, NOW, Random(seed), settings, ["a:1"]).choices:
        victim = str(choice.lease.lease_owner)
        is_within = group_of(victim, settings) == "a"
        assert held[victim] - held["a:1"] >= (2 if is_within else 1)
        if not is_within:
            assert held[victim] >= target > held["a:1"]
        held[victim] -= 1
        held["a:1"] += 1
        assert _group_spread(held, settings) <= before
        if not is_within:
            assert to_steal(held, victim, target)[1] == 0 or max(held.values()) > target
    assert _group_spread(held, settings) <= before


def _group_spread(held: Counter[str], settings: Settings) -> float:
    """Between the group furthest above its share and the one furthest below."""
    share = held.total() / len(held)
    over: defaultdict[str, float] = defaultdict(float)
    for worker_id, count in held.items():
        over[group_of(worker_id, settings)] += count - share
    return round(max(over.values()) - min(over.values()), 6)


@given(
    st.lists(
        st.tuples(st.sampled_from(["us", "w1", "w2", "w3"]), st.one_of(st.none(), st.floats(0, 100))),
        max_size=30,
    ),
    st.integers(1, 5),
)
def test_steal_by_throughput_never_widens_the_spread(
    carried: list[tuple[str, float | None]], max_leases_to_steal_at_one_time: int
) -> None:
    leases = [
        replace(lease, holder="item/window-1", throughput_kbps=kbps)
        for lease, (_, kbps) in zip(_owned_by([owner for owner, _ in carried]), carried, strict=True)
    ]
    settings = replace(
        CONTINUOUS,
        balance=Balance.THROUGHPUT,
        max_leases_to_steal_at_one_time=max_leases_to_steal_at_one_time,
    )
    measured = [kbps for _, kbps in carried if kbps is not None]
    unmeasured = sum(measured) / len(measured) if measured else 1.0
    load: defaultdict[str, float] = defaultdict(float, us=0.0)
    for owner, kbps in carried:
        load[owner] += unmeasured if kbps is None else kbps
    for choice in choose_leases(leases, {}, NOW, Random(7), settings, ["us"]).choices:
        before = max(load.values()) - min(load.values())
        kbps = choice.lease.throughput_kbps
        load[str(choice.lease.lease_owner)] -= unmeasured if kbps is None else kbps
        load["us"] += unmeasured if kbps is None else kbps
        assert max(load.values()) - min(load.values()) <= before + 1e-6


@given(st.data(), st.lists(st.sampled_from([None, "us", "w1", "w2", "w3"]), max_size=25), st.booleans())
def test_choice_by_leases_equals_the_count_of_javas_taker(
    data: st.DataObject, owners: list[str | None], priority: bool
) -> None:
    """Ours goes on after the very old ones, where Java waits for its next run."""
    leases = _owned_by(owners)
    idle = {lease.lease_key: timedelta(seconds=data.draw(st.sampled_from([0, 10, 30, 31, 90, 91]))) for lease in leases}
    sightings = {lease.lease_key: Sighting(0, lease.lease_owner, NOW - idle[lease.lease_key]) for lease in leases}
    settings = replace(CONTINUOUS, enable_priority_lease_assignment=priority)
    java = JavaSettings(settings.failover_time, enable_priority_lease_assignment=priority)
    theirs = to_take("us", leases, idle, Random(1), java)
    ours = choose_leases(leases, sightings, NOW, Random(1), settings, ["us"]).choices
    if any(idle[lease.lease_key] > 3 * settings.failover_time for lease in theirs):
        assert len(ours) >= len(theirs)
        return
    assert len(ours) == len(theirs)
    if ours and ours[0].why is ClaimReason.STEAL:
        assert [choice.lease.lease_owner for choice in ours] == [lease.lease_owner for lease in theirs]


def _is_alive(lease: Lease, sightings: dict[str, Sighting], settings: Settings) -> bool:
    return lease.actual_owner is not None and not is_expired(lease, sightings, NOW, settings.failover_time)


def _owned_by(owners: Sequence[str | None]) -> list[Lease]:
    return [Lease(f"{n:02}", Checkpoint("5"), lease_owner=owner) for n, owner in enumerate(owners)]


def _spread(held: Counter[str] | Counter[str | None], fleet: set[str]) -> int:
    counts = [held[worker_id] for worker_id in fleet]
    return max(counts) - min(counts)
