"""Bytes a second evened out between workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from statistics import fmean

import pytest
from sublet.decisions.manager.group_balance import ranked_at
from sublet.decisions.manager.throughput_balance import LeaseMove, moves_by_throughput
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.settings import Balance, Mode, Settings

from tests.doubles.balance_world import BalanceWorld, cluster

SETTINGS = Settings(application="orders", stream="orders", mode=Mode.CONTINUOUS, balance=Balance.THROUGHPUT)
RANK = ranked_at(datetime(2026, 1, 31, 8, tzinfo=UTC), timedelta(seconds=30))
A, B = cluster("a", 10), cluster("b", 10)


def fleet(rates: Mapping[str, Sequence[float | None]]) -> dict[str, list[Lease]]:
    """A lease for each rate."""
    numbers = count()
    return {
        worker: [
            Lease(f"{next(numbers):02}", Checkpoint("5"), lease_owner=worker, throughput_kbps=rate) for rate in each
        ]
        for worker, each in rates.items()
    }


def planned(rates: Mapping[str, Sequence[float | None]], most: int = 9) -> list[tuple[str | None, str, float | None]]:
    live = fleet(rates)
    moves = moves_by_throughput(live, live, live, most, RANK)
    return sorted((move.lease.lease_owner, move.thief, move.lease.throughput_kbps) for move in moves)


@pytest.mark.parametrize(
    ("because", "rates", "moves"),
    [
        ("all within a tenth of the mean", {"a": [11], "b": [9]}, []),
        ("exactly a tenth from it", {"a": [1, 10], "b": [9]}, []),
        ("one beyond it, and the other short of it", {"a": [6, 6], "b": [4, 4]}, []),
        ("three fifths of what is too much", {"a": [5] * 6, "b": [5] * 2}, [("a", "b", 5)]),
        ("the heavier of those that fit", {"a": [1, 2, 5, 22], "b": [10]}, [("a", "b", 1), ("a", "b", 5)]),
        ("all too heavy: the lightest", {"a": [20, 24], "b": [4]}, [("a", "b", 20)]),
        ("if that makes a difference of a tenth", {"a": [5, 8], "b": [7]}, [("a", "b", 5)]),
        ("which would only change places", {"a": [20, 14], "b": [18]}, []),
        ("no others for one that cannot be helped", {"a": [50], "b": [10, 1], "c": [9, 1]}, []),
        ("a single lease stays where it is", {"a": [50], "b": [1]}, []),
        ("nor little for little", {"a": [26], "b": [20.9, 0.1], "c": [19], "d": [19], "e": [19]}, []),
        ("an idle lease evens out nothing", {"a": [0, 50], "b": [1]}, []),
        ("nothing flows", {"a": [0, 0, 0], "b": []}, []),
        ("nothing is measured: leases count alike", {"a": [None] * 4, "b": []}, [("a", "b", None)]),
        ("one not measured counts as the mean", {"a": [4, None, 4, 4], "b": []}, [("a", "b", 4)]),
        ("what is no number is not measured", {"a": [4, float("inf"), 4, 4], "b": []}, [("a", "b", 4)]),
        ("to each of two", {"a": [1] * 30, "b": [], "c": []}, [("a", "b", 1)] * 9 + [("a", "c", 1)] * 3),
    ],
)
def test_balance_moves_leases_by_throughput(
    because: str, rates: dict[str, list[float | None]], moves: list[tuple[str, str, float | None]]
) -> None:
    assert planned(rates) == moves, because


def test_no_thief_takes_more_than_it_may() -> None:
    assert Counter(thief for _, thief, _ in planned({"a": [1] * 30, "b": [], "c": []}, most=2)) == {
        "b": 2,
        "c": 2,
    }


@pytest.mark.parametrize(
    ("because", "rates", "most", "moves"),
    [
        (
            "from the busiest worker at that time",
            {"a": [2] * 15, "c": [2.9] * 10, "b": []},
            2,
            [("a", "b", 2), ("c", "b", 2.9)],
        ),
        ("none that would take the taker across the mean", {"a": [6] * 10, "b": [25], "c": [5]}, 1, [("a", "c", 6)]),
    ],
)
def test_balance_moves_at_most_so_many_leases_at_a_time(
    because: str, rates: dict[str, list[float | None]], most: int, moves: list[tuple[str, str, float | None]]
) -> None:
    assert planned(rates, most) == moves, because


def test_lease_of_at_least_half_the_heaviest_fitting_one_may_be_moved() -> None:
    live = fleet({"a": [4, 5, 10, 40], "b": [1]})
    first = [
        next(iter(moves_by_throughput(live, live, live, 1, rank))).lease.throughput_kbps
        for rank in (str.encode, lambda name: str.encode(name)[::-1].translate(bytes(range(255, -1, -1))))
    ]
    assert first == [5, 10]


def test_a_worker_at_the_mean_takes_no_more() -> None:
    live = fleet({"a": [6, 24], "b": [8], "c": [2, 29], "d": [1], "e": [], "f": [], "g": []})
    assert [move.lease.lease_owner for move in moves_by_throughput(live, live, ["b"], 2, RANK)] == ["c"]


@pytest.mark.parametrize("rates", [{"a": [5] * 8, "b": [5] * 8, "c": [5], "d": [5]}, {"a": [20, 20], "b": [4]}])
def test_the_plan_is_the_same_in_whatever_order_the_leases_are_seen(rates: dict[str, list[float]]) -> None:
    """Of workers and leases that are equally busy: each worker makes those moves that are its own."""
    live = fleet(rates)
    backwards = {worker: leases[::-1] for worker, leases in reversed(live.items())}
    assert moves_by_throughput(live, live, live, 1, RANK) == moves_by_throughput(
        backwards, backwards, list(backwards), 1, RANK
    )


def skewed(leases: int, hot: float, chance: Random) -> dict[str, float]:
    """A tenth of the shards are hot."""
    return {
        f"{number:05}": chance.random() + chance.choice((1, 1, 1, 2, 2, 2, 5, 5, 5, hot)) for number in range(leases)
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("phases", [1, 5, 1_000])
def test_a_fleet_comes_to_rest_within_a_tenth_of_the_mean(seed: int, phases: int) -> None:
    chance = Random(seed)
    world = BalanceWorld(200, SETTINGS, sublet=A + B, phases=phases, rates=skewed(200, 5, chance), chance=chance)
    world.give(A, each=20)
    world.settle(60)
    load = world.load()
    mean = fmean(load.values())
    assert max(load.values()) <= 1.1 * mean
    assert min(load.values()) >= 0.9 * mean


@pytest.mark.parametrize("seed", range(3))
def test_hot_leases_are_evened_out_as_far_as_they_can_be(seed: int) -> None:
    """None is split, so two workers may stay one hot lease apart."""
    chance = Random(seed)
    world = BalanceWorld(200, SETTINGS, sublet=A + B, rates=skewed(200, 40, chance), chance=chance)
    world.give(A, each=20)
    world.settle(60)
    load = world.load()
    assert max(load.values()) - min(load.values()) <= max(world.rates.values())


def test_gusts_move_nothing() -> None:
    chance = Random(1)
    world = BalanceWorld(200, SETTINGS, sublet=A + B, chance=chance)
    world.give(A + B, each=10)
    for _ in range(20):
        world.table = {
            key: replace(lease, throughput_kbps=5 * chance.uniform(0.8, 1.2)) for key, lease in world.table.items()
        }
        assert world.tick() == 0


def test_balance_counts_leases_beside_workers_that_do() -> None:
    chance = Random(2)
    world = BalanceWorld(100, SETTINGS, sublet=A, java=B, rates=skewed(100, 40, chance), chance=chance)
    world.settle(60)
    assert set(world.held().values()) == {5}


def test_balance_is_restored_after_workers_die() -> None:
    chance = Random(3)
    world = BalanceWorld(200, SETTINGS, sublet=A + B, rates=skewed(200, 5, chance), chance=chance)
    world.settle(60)
    world.die(B)
    world.settle(60)
    load = world.load()
    assert sum(load.values()) == pytest.approx(sum(world.rates.values()))
    assert max(load.values()) <= 1.1 * fmean(load.values())


def test_move_names_a_lease_and_its_thief() -> None:
    live = fleet({"a": [5.0] * 6, "b": [5.0, 5.0]})
    assert moves_by_throughput(live, live, ("a",), 1, RANK) == ()
    assert moves_by_throughput(live, {}, live, 1, RANK) == ()
    (move,) = moves_by_throughput(live, {"a": live["a"][:1]}, live, 1, RANK)
    assert move == LeaseMove(live["a"][0], "b")
