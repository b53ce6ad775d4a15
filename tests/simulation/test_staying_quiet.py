"""No worker is sent where nothing waits, nothing is lost by that, and a shard that wakes is handled within a tick."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.exploring import in_blocks
from tests.simulation.staying_quiet import stay_quiet


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", in_blocks(range(40), size=5, few=1))
def test_quiet_worlds(seeds: Sequence[int]) -> None:
    broken = {seed: found for seed in seeds if (found := stay_quiet(seed).violation)}
    assert not broken, broken
