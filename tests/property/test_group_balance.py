"""The moves between groups that all workers together plan in one tick."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.manager.group_balance import moves_between_groups, ranked_at

from tests.doubles.java_taker import fair_share, to_steal

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
WORKERS = ["a1", "a2", "a3", "b1", "b2", "c1"]

fleets = st.dictionaries(st.sampled_from(WORKERS), st.integers(0, 12), min_size=1)


def over(held: Mapping[str, int]) -> dict[str, float]:
    """Each group's excess over its share."""
    share = sum(held.values()) / len(held)
    found: defaultdict[str, float] = defaultdict(float)
    for worker, count in held.items():
        found[worker[0]] += count - share
    return found


@given(fleets, st.sets(st.sampled_from(WORKERS)), st.integers(1, 4), st.integers(0, 10**6))
def test_move_between_groups_lessens_the_spread_and_java_takes_none_back(
    held: dict[str, int], idlers: set[str], most: int, minutes: int
) -> None:
    groups = {worker: worker[0] for worker in held}
    thieves = held.keys() - idlers
    target = fair_share(sum(held.values()), len(held))
    rank = ranked_at(NOW + minutes * timedelta(minutes=1), timedelta(minutes=1))
    moves = moves_between_groups(held, held, groups, thieves, target, most, rank)
    short = {group: -beyond for group, beyond in over(held).items() if beyond < -1e-9}
    taken = Counter(groups[move.thief] for move in moves)
    after = Counter(held)
    for victim, thief in moves:
        before = over(after)
        assert before[groups[victim]] - before[groups[thief]] > 1 - 1e-9
        assert after[victim] >= target > after[thief]
        after[victim] -= 1
        after[thief] += 1
        assert _spread(over(after)) <= _spread(before) + 1e-9
    assert all(count < short[group] + 1 for group, count in taken.items())
    assert max(Counter(move.thief for move in moves).values(), default=0) <= most
    assert {move.thief for move in moves} <= thieves
    if max(held.values()) <= target:
        assert all(to_steal(after, worker, target)[1] <= to_steal(held, worker, target)[1] for worker in held)


def _spread(beyond: Mapping[str, float]) -> float:
    return max(beyond.values()) - min(beyond.values())
