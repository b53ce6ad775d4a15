"""Some worlds of programs that pull; `make simulate PULL=2000` runs new ones."""

from __future__ import annotations

import pytest

from tests.simulation.pull_worlds import broken_promise

WORLDS = 60


@pytest.mark.parametrize("seed", range(WORLDS))
def test_every_record_is_acknowledged_or_comes_again(seed: int) -> None:
    assert broken_promise(seed) is None
