"""A healthy shard stays within a window of its tip beside a shard whose records are never handled."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.exploring import in_blocks
from tests.simulation.bad_neighbour import WAYS, beside_a_bad_one


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seeds", in_blocks(range(6), size=2, few=1))
def test_a_bad_shard_leaves_its_neighbours_alone(seeds: Sequence[int], way: str) -> None:
    broken = {seed: found for seed in seeds if (found := beside_a_bad_one(seed, way).violation)}
    assert not broken, broken
