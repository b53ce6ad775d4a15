"""A finished prefix against the simplest equivalent: a set of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.session.finished_prefix import FinishedPrefix

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1])))


@given(RANGES)
def test_finished_prefix_equals_a_set(ranges: list[tuple[int, int]]) -> None:
    prefix, known = FinishedPrefix(), set[int]()
    for start, end in ranges:
        prefix, known = prefix.finish(start, end), known | set(range(start, end))
        assert [number in prefix for number in range(60)] == [number in known for number in range(60)]
        assert prefix.finished == len(known)
        assert prefix.length == next(number for number in range(60) if number not in known)


@given(RANGES)
def test_finished_ranges_are_in_order_and_do_not_touch(ranges: list[tuple[int, int]]) -> None:
    prefix = FinishedPrefix()
    for start, end in ranges:
        prefix = prefix.finish(start, end)
    ends = [prefix.length, *(edge for known in prefix.beyond for edge in known)]
    assert all(earlier < later for earlier, later in pairwise(ends))


@given(st.permutations(range(20)))
def test_finished_prefix_covers_all_in_any_order(order: list[int]) -> None:
    prefix = FinishedPrefix()
    for number in order:
        prefix = prefix.finish(number, number + 1)
        assert len(prefix.beyond) <= 10
    assert prefix == FinishedPrefix(20)
