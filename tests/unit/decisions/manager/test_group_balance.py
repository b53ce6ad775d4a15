"""Leases evened out between groups of workers: small fleets of many deciders, and the published one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from sublet.decisions.manager.choose_leases import choose_leases
from sublet.decisions.manager.group_balance import GroupMove, Rank, group_of, moves_between_groups, ranked_at
from sublet.settings import Balance, Mode, Settings

from tests.doubles.balance_world import BalanceWorld, cluster
from tests.doubles.java_taker import fair_share, to_steal
from tests.exploring import explores

LEASE = Settings(application="orders", stream="orders", mode=Mode.CONTINUOUS)
GROUP = replace(LEASE, balance=Balance.GROUP)
NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
IN_TURN = 1_000
"""Phases of a tick: each worker sees what the one before it did."""

A, B, C = cluster("a", 10), cluster("b", 10), cluster("c", 5)


def settled(world: BalanceWorld) -> tuple[Counter[str], Counter[int]]:
    """Leases by group, and how many workers have how many, once nothing moves any more."""
    world.settle()
    return world.by_group(), Counter(world.held().values())


@pytest.mark.parametrize(("scale", "phases"), [(1, IN_TURN), pytest.param(10, IN_TURN, marks=explores)])
def test_java_s_rule_settles_at_three_fifths_and_two(scale: int, phases: int) -> None:
    """The published case: 500 shards on a cluster of 100 workers and a second one that comes later."""
    first, second = cluster("a", 10 * scale), cluster("b", 10 * scale)
    world = BalanceWorld(50 * scale, LEASE, java=first + second, phases=phases)
    world.give(first, each=5)
    assert settled(world)[0] == {"a": 30 * scale, "b": 20 * scale}


@explores
def test_the_published_case_comes_to_rest_in_halves() -> None:
    first, second = cluster("a", 100), cluster("b", 100)
    world = BalanceWorld(500, GROUP, sublet=first + second)
    world.give(first, each=3)
    world.give(second, each=2)
    assert settled(world) == ({"a": 250, "b": 250}, {2: 100, 3: 100})


@explores
def test_the_published_case_from_a_cold_start() -> None:
    world = BalanceWorld(500, GROUP, sublet=cluster("a", 100) + cluster("b", 100))
    assert settled(world) == ({"a": 250, "b": 250}, {2: 100, 3: 100})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("phases", [1, 4, IN_TURN])
def test_groups_share_leases_equally_in_any_order_of_ticks(seed: int, phases: int) -> None:
    world = BalanceWorld(50, GROUP, sublet=A + B, phases=phases, chance=Random(seed))
    assert settled(world) == ({"a": 25, "b": 25}, {2: 10, 3: 10})


@pytest.mark.parametrize(
    ("leases", "expected"),
    [(60, (24, 24, 12)), (62, (25, 25, 12)), (24, (10, 9, 5))],
)
def test_a_group_s_share_is_by_its_workers(leases: int, expected: tuple[int, int, int]) -> None:
    world = BalanceWorld(leases, GROUP, sublet=A + B + C)
    by_group, held = settled(world)
    assert sorted(by_group.values(), reverse=True) == sorted(expected, reverse=True)
    assert max(held) - min(held) <= 1


def test_a_group_that_is_lost_and_comes_back() -> None:
    world = BalanceWorld(50, GROUP, sublet=A + B)
    world.settle()
    world.die(B)
    assert settled(world) == ({"a": 50}, {5: 10})
    world.dead.clear()
    world.join(cluster("b", 10))
    assert settled(world) == ({"a": 25, "b": 25}, {2: 10, 3: 10})


@pytest.mark.parametrize(
    ("java", "sublet"), [(A, B), (A[:5] + B[:5], A[5:] + B[5:]), (A[:5], A[5:] + B), (B[:5], A + B[5:])]
)
def test_java_workers_take_nothing_back(java: list[str], sublet: list[str]) -> None:
    world = BalanceWorld(50, GROUP, sublet=sublet, java=java)
    world.give(A, each=3)
    world.give(B, each=2)
    assert settled(world) == ({"a": 25, "b": 25}, {2: 10, 3: 10})


def test_group_of_java_workers_keeps_the_leases_that_java_takes() -> None:
    """No worker gives a lease away: one that has too few steals it."""
    world = BalanceWorld(50, GROUP, sublet=A, java=B)
    world.give(A, each=3)
    world.give(B, each=2)
    assert settled(world)[0] == {"a": 30, "b": 20}


def test_workers_that_balance_otherwise_do_not_hold_up_those_of_their_group() -> None:
    """Their rows look like ours, and they take no part: a keeper of Spark's, or one that is set to balance=lease."""
    world = BalanceWorld(50, GROUP, sublet=A + B)
    world.give(A, each=3)
    world.give(B, each=2)
    world.sublet = B[5:]
    for _ in range(40):
        world.tick()
    assert world.by_group() == {"a": 25, "b": 25}


def test_moves_balance_10000_leases_on_three_groups() -> None:
    """From where KCL's rule leaves off, by who came first. The plan of each tick is the same for all who look."""
    sizes = {"a": 50, "b": 100, "c": 200}
    groups = {worker: group for group, size in sizes.items() for worker in cluster(group, size)}
    target = fair_share(10_000, 350)
    high = 10_000 - (target - 1) * 350
    held = Counter({worker: target - (place >= high) for place, worker in enumerate(groups)})
    ticks = 0
    while moves := _tick(held, groups, target, NOW + ticks * timedelta(minutes=1)):
        ticks += 1
        assert ticks < 60
        for victim, thief in moves:
            held[victim] -= 1
            held[thief] += 1
    by_group = Counter[str]()
    for worker, count in held.items():
        by_group[groups[worker]] += count
    assert by_group == {"a": 1429, "b": 2857, "c": 5714}
    assert set(held.values()) == {28, 29}


def _tick(held: Counter[str], groups: dict[str, str], target: int, now: datetime) -> tuple[GroupMove, ...]:
    moves = moves_between_groups(held, held, groups, groups, target, 1, ranked_at(now, timedelta(minutes=1)))
    assert max(Counter(move.thief for move in moves).values(), default=0) <= 1
    return moves


def test_moves_between_groups_cover_the_shortage_and_use_each_worker_once() -> None:
    groups = {worker: worker[0] for worker in A + B}
    held = Counter(dict.fromkeys(A, 3) | dict.fromkeys(B, 2))
    moves = moves_between_groups(held, held, groups, groups, 3, 1, ranked_at(NOW, timedelta(seconds=30)))
    assert len(moves) == 5
    assert len({move.victim for move in moves}) == len({move.thief for move in moves}) == 5
    assert {groups[move.victim] for move in moves} == {"a"}


@pytest.mark.parametrize(
    "held", [{"a:0": 3, "a:1": 2, "b:0": 2, "b:1": 2}, {"a:0": 2, "b:0": 1}, {"a:0": 1, "b:0": 1}, {"a:0": 4}]
)
def test_groups_within_one_lease_of_each_other_move_nothing(held: dict[str, int]) -> None:
    groups = {worker: worker[0] for worker in held}
    target = fair_share(sum(held.values()), len(held))
    assert moves_between_groups(held, held, groups, groups, target, 9, ranked_at(NOW, timedelta(1))) == ()


def test_leases_that_may_not_be_stolen_are_not_planned() -> None:
    groups, held = {"a:0": "a", "b:0": "b"}, {"a:0": 6, "b:0": 0}
    rank = ranked_at(NOW, timedelta(seconds=30))
    assert len(moves_between_groups(held, {"a:0": 2}, groups, groups, 3, 9, rank)) == 2
    assert moves_between_groups(held, {}, groups, groups, 3, 9, rank) == ()
    assert moves_between_groups(held, held, groups, ("a:0",), 3, 9, rank) == ()


def _fixed_order(_: str) -> bytes:
    return b""


def _moves(held: dict[str, int], stealable: dict[str, int], thieves: list[str], target: int) -> list[GroupMove]:
    groups = {worker: worker[0] for worker in held}
    return list(moves_between_groups(held, stealable, groups, thieves, target, 9, _fixed_order))


def test_group_with_its_share_gets_nothing_and_a_short_group_gives_nothing() -> None:
    """Though another has more, or less, and cannot give or take."""
    assert _moves({"a:0": 4, "b:0": 2, "c:0": 0}, {"a:0": 4}, ["b:0"], 3) == []
    short = {"a:0": 10, "b:0": 4, "b:1": 1, "c:0": 0}
    assert _moves(short, {"b:0": 4, "b:1": 1}, ["c:0"], 4) == []


def test_moves_go_from_the_fullest_to_the_emptiest_worker_of_the_groups() -> None:
    held = {"a:0": 9, "a:1": 7, "b:0": 1, "b:1": 3}
    after = Counter(held)
    for move in _moves(held, held, ["b:0", "b:1"], 5):
        assert after[move.victim] == max(after["a:0"], after["a:1"])
        assert after[move.thief] == min(after["b:0"], after["b:1"])
        after.update({move.victim: -1, move.thief: 1})
    assert set(after.values()) == {5}


def test_the_plan_is_the_same_in_whatever_order_the_workers_are_seen() -> None:
    """Of groups that have equally much too: each worker makes those moves that are its own."""
    held = {"a:0": 6, "b:0": 6, "c:0": 0, "d:0": 0}
    backwards = dict(reversed(held.items()))
    assert _moves(held, held, list(held), 3) == _moves(backwards, backwards, list(backwards), 3) != []


def test_worker_below_the_target_gives_no_lease_though_its_group_has_too_many() -> None:
    held = {"a:0": 6, "a:1": 2, "b:0": 2, "b:1": 2}
    groups = {worker: worker[0] for worker in held}
    assert moves_between_groups(held, {"a:1": 2}, groups, groups, 3, 9, ranked_at(NOW, timedelta(1))) == ()


def test_newcomers_that_do_not_see_each_other_choose_different_owners() -> None:
    """They hold nothing, so no plan of another's counts with them."""
    world = BalanceWorld(50, GROUP, sublet=A)
    world.give(A, each=5)
    leases = list(world.table.values())
    victims = {
        choice.lease.lease_owner
        for newcomer in B
        for choice in choose_leases(leases, {}, NOW, Random(1), GROUP, [newcomer]).choices
    }
    assert len(victims) > 3


def test_no_java_worker_would_steal_after_a_move() -> None:
    held = Counter({"a:0": 3, "a:1": 3, "a:2": 3, "b:0": 2, "b:1": 2, "b:2": 2})
    groups = {worker: worker[0] for worker in held}
    (move,) = moves_between_groups(held, held, groups, groups, 3, 1, ranked_at(NOW, timedelta(1)))
    held[move.victim] -= 1
    held[move.thief] += 1
    assert all(to_steal(held, worker, 3)[1] == 0 for worker in held)


def test_the_order_is_another_after_a_while_and_for_a_looker_of_its_own() -> None:
    minute = timedelta(minutes=1)

    def order(rank: Rank) -> list[str]:
        return sorted(A, key=rank)

    assert order(ranked_at(NOW, minute)) == order(ranked_at(NOW + minute / 2, minute))
    assert order(ranked_at(NOW, minute)) != order(ranked_at(NOW + minute, minute))
    assert order(ranked_at(NOW, minute)) != order(ranked_at(NOW, minute, "a:0"))


@pytest.mark.parametrize(
    ("worker_id", "separator", "group"),
    [
        ("zone-a:i-0abc", ":", "zone-a"),
        ("zone-a:i-0abc:7", ":", "zone-a"),
        ("c1-5c1e7d3a-9f", "-", "c1"),
        ("alone", ":", "alone"),
        ("orders-lambda-3", ":", "orders-lambda"),
        ("orders-lambda-3", "-", "orders-lambda"),
        ("orders-ip-10-0-0-7-3fa9", "-", "orders"),
    ],
)
def test_the_group_of_a_worker(worker_id: str, separator: str, group: str) -> None:
    assert group_of(worker_id, replace(GROUP, group_separator=separator)) == group
