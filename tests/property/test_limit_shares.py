"""What idle shards leave of a limit goes to those that have more, in proportion to what waits there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sublet.spark.plan.limit_shares import WORTH_A_ROUND, Admitted, shared_rest

shards = st.dictionaries(
    st.integers(0, 500).map(lambda number: f"shardId-{number:012}"),
    st.builds(Admitted, st.integers(0, 10**6), st.just(0) | st.integers(0, 10**9)),
    max_size=60,
)
limits = st.integers(1, 10**7)


def rest_of(limit: int, found: dict[str, Admitted]) -> int:
    return limit - sum(each.used for each in found.values())


@given(limits, shards)
def test_all_of_a_rest_that_matters_is_given_out_and_no_more(limit: int, found: dict[str, Admitted]) -> None:
    rest = rest_of(limit, found)
    matters = rest * WORTH_A_ROUND >= limit and any(each.waiting for each in found.values())
    assert sum(shared_rest(limit, found).values()) == (rest if matters else 0)


@given(limits, shards)
def test_only_shards_with_more_get_some(limit: int, found: dict[str, Admitted]) -> None:
    shares = shared_rest(limit, found)
    assert all(found[name].waiting > 0 and share > 0 for name, share in shares.items())


@given(limits, shards)
def test_parts_of_a_rest_are_proportional_to_what_waits(limit: int, found: dict[str, Admitted]) -> None:
    shares, rest = shared_rest(limit, found), rest_of(limit, found)
    total = sum(each.waiting for each in found.values())
    if shares:
        for name, each in found.items():
            assert abs(shares.get(name, 0) - rest * each.waiting / total) <= 1.001


@given(limits, shards)
def test_a_division_does_not_depend_on_the_order_of_shards(limit: int, found: dict[str, Admitted]) -> None:
    assert shared_rest(limit, found) == shared_rest(limit, dict(reversed(found.items())))
