"""A healthy shard beside one of which no record is ever handled keeps within a window of its tip."""

from __future__ import annotations

import os

import pytest

from tests.simulation.bad_neighbour import WAYS, beside_a_bad_one

WORLDS = int(os.environ.get("BAD_NEIGHBOUR_SEEDS", "6"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS)
def test_a_bad_shard_leaves_its_neighbours_alone(way: str) -> None:
    broken = {seed: found for seed in range(WORLDS) if (found := beside_a_bad_one(seed, way).violation)}
    assert not broken, broken
