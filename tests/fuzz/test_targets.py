"""Each fuzz target on random bytes, without the fuzzer: so that a target is never broken when it is wanted."""

from __future__ import annotations

from random import Random, SystemRandom

import pytest

from tests.fuzz.targets import TARGETS

INPUTS = 300


@pytest.mark.parametrize("name", TARGETS)
def test_random_bytes(name: str) -> None:
    seed = SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance = Random(seed)
    for _ in range(INPUTS):
        TARGETS[name](chance.randbytes(chance.randrange(400)))
