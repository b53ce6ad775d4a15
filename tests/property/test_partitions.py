"""A batch's shards divided among its tasks: each in one task, about the same weight in each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sublet.spark.plan.partitions import partitions_of

weights = st.lists(st.floats(0, 1e12) | st.just(1.0), max_size=200)
counts = st.integers(1, 50)


@given(weights, counts | st.none())
def test_each_shard_is_in_one_partition_in_order(sizes: list[float], most: int | None) -> None:
    parts = partitions_of(sizes, most)
    assert sorted(place for part in parts for place in part) == list(range(len(sizes)))
    assert all(part == sorted(part) for part in parts)
    assert len(parts) == min(len(sizes), len(sizes) if most is None else most)
    assert all(parts)


@given(weights, counts)
def test_no_partition_is_heavier_than_average_by_more_than_a_shard(sizes: list[float], most: int) -> None:
    for part in partitions_of(sizes, most):
        weight, largest = sum(sizes[place] for place in part), max(sizes[place] for place in part)
        assert weight <= (sum(sizes) / most + largest) * 1.000001


@given(st.integers(0, 300), counts)
def test_shards_of_the_same_weight_are_divided_evenly(shards: int, most: int) -> None:
    sizes = [len(part) for part in partitions_of([1.0] * shards, most)]
    assert not sizes or max(sizes) - min(sizes) <= 1
