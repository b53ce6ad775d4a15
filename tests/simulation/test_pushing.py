"""Nothing is lost, repeated without reason, or handled out of order when records are pushed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.exploring import in_blocks
from tests.simulation.pushing import AheadOfItself, Mistake, RenewedAtLatest, push


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", in_blocks(range(200), size=5, few=1))
def test_worlds_that_are_pushed_to(seeds: Sequence[int]) -> None:
    broken = {seed: found for seed in seeds if (found := push(seed).violation)}
    assert not broken, broken


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mistake", [RenewedAtLatest, AheadOfItself])
def test_a_planted_mistake_is_noticed(mistake: Mistake) -> None:
    assert any(push(seed, mistake=mistake).violation for seed in range(40))
