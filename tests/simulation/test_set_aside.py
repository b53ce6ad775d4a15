"""Worlds in which much is set aside, and redriven. More of them: `make simulate WORLDS=set-aside`."""

from __future__ import annotations

import os

import pytest

from tests.simulation.set_aside import set_aside

WORLDS = int(os.environ.get("SET_ASIDE_SEEDS", "10"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_is_handled_or_set_aside_or_before_the_checkpoint() -> None:
    broken = {seed: found for seed in range(WORLDS) if (found := set_aside(seed).violation)}
    assert not broken, broken
