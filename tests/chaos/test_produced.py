"""A short `make chaos CHAOS=--produce`, to keep it working: a fixed seed, and the verdict."""

from __future__ import annotations

import pytest

from tests.chaos.plan import Kind, Pace
from tests.chaos.produced import produce_under_faults
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.slow, explores, pytest.mark.timeout(400)]

SEED = 3
SECONDS = 20.0
PACES = {Kind.NETWORK: Pace((1, 3), (0.5, 1)), Kind.RESHARD: Pace((5, 8))}


def test_producers_lose_nothing_and_keep_the_order_of_keys_under_every_fault() -> None:
    said: list[str] = []
    found = produce_under_faults(SEED, SECONDS, said.append, per_round=5, paces=PACES)
    print(f"seed {SEED}", *found.lines(), sep="\n")
    assert found.wrong == ()
    assert found.put == found.acknowledged == found.delivered
    assert found.hit.total() > 0
    assert found.reshards.total() > 0
