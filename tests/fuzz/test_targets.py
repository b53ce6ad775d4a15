"""Each fuzz target on the same random bytes, without the fuzzer, so that a broken target is noticed."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.targets import TARGETS

INPUTS = 300


@pytest.mark.parametrize("name", TARGETS)
def test_random_bytes(name: str) -> None:
    chance = Random(name)
    for _ in range(INPUTS):
        TARGETS[name](chance.randbytes(chance.randrange(400)))
