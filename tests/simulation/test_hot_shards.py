"""Sketches of hot shards cost no record anything, whatever happens to the table that they are stored in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sublet.engine.session.hot_shard_sketch import SessionSketch

from tests.exploring import in_blocks
from tests.simulation.hot_shards import Tried, run_hot
from tests.simulation.noticed import assert_noticed

WORLDS = 60


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", in_blocks(range(200), size=5, few=1))
def test_worlds_with_hot_shards(seeds: Sequence[int]) -> None:
    tried = Tried()
    broken = {seed: found for seed in seeds if (found := run_hot(seed, tried=tried).violation)}
    assert not broken, broken
    assert tried.stored > 10
    assert tried.failed > 0


def stored_by_the_session_itself(of: SessionSketch, *, is_last: bool = False) -> None:
    """Waits for the answer, and passes on what goes wrong."""
    if of._store is not None and is_last and of._making.heat > 0.5:
        of._store.keep(of._making.sketch(of._clock.now()))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_session_that_waits_for_its_sketch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionSketch, "store", stored_by_the_session_itself)
    assert_noticed(run_hot, r"raised LeaseTableUnavailable|does not end$", WORLDS, "a session that waits")
