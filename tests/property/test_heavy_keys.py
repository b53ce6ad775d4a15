"""Whatever keys come in whatever order: the summary's bounds hold, also after merges and with fewer counters."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.load.heavy_keys import HeavyKey, HeavyKeys, fewer, merged_keys
from sublet.protocol.hash_keys import hash_key

FEW = 4
loads = st.lists(st.tuples(st.integers(0, 12).map("key-{}".format), st.integers(1, 1000)), max_size=200)
Loads = Sequence[tuple[str, int]]


def counted(given_loads: Loads, counters: int = FEW) -> tuple[tuple[HeavyKey, ...], int]:
    keys = HeavyKeys(counters)
    for key, load in given_loads:
        hashed = hash_key(key, None)
        counter = keys.known(key) or keys.enter(key, hashed, hashed)
        counter.load += load
    return keys.finished()


def check(found: tuple[HeavyKey, ...], missed: int, given_loads: Loads, counters: int) -> None:
    truth: Tally[int] = Tally()
    for key, load in given_loads:
        truth[hash_key(key, None)] += load
    assert len(found) <= counters
    assert missed <= truth.total() / (counters + 1)
    for each in found:
        assert each.load <= truth[each.key_hash] <= each.load + each.error
        assert each.error <= missed
    absent = truth.keys() - {each.key_hash for each in found}
    assert all(truth[key] <= missed for key in absent)


@given(loads)
def test_bounds_hold(given_loads: Loads) -> None:
    check(*counted(given_loads), given_loads, FEW)


@given(loads, loads)
def test_bounds_hold_for_the_sum_of_two(mine: Loads, other: Loads) -> None:
    check(*merged_keys(*counted(mine), *counted(other), counters=FEW), [*mine, *other], FEW)


@given(loads, loads, loads)
def test_bounds_hold_with_fewer_counters_and_more_merges(a: Loads, b: Loads, c: Loads) -> None:
    two = merged_keys(*fewer(*counted(a), 2), *counted(b), counters=FEW)
    check(*merged_keys(*two, *counted(c), counters=2), [*a, *b, *c], 2)


def test_a_key_counted_from_the_start_is_exact() -> None:
    others = [(f"other-{n}", 1) for n in range(100)]
    [top, *_], _ = counted([("big", 50), *others, ("big", 50)])
    assert (top.name, top.load, top.error) == ("big", 100, 0)
