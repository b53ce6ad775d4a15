"""A short `make chaos`, to keep it working: a fixed seed, each kind of fault, and the verdict; but not the times."""

from __future__ import annotations

from pathlib import Path

import pytest
from sublet.settings import Reading

from tests.chaos.plan import Kind, Pace
from tests.chaos.run import run
from tests.chaos.screen import progress_line
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.slow, explores, pytest.mark.timeout(400)]

SEED = 4
SECONDS = 24.0
FAILURE_RATE = 0.4
PACES = {
    Kind.KILL_WORKER: Pace((4, 8)),
    Kind.KILL_MANAGER: Pace((8, 12)),
    Kind.SUSPEND_WORKER: Pace((4, 8), (12, 14)),
    Kind.NETWORK: Pace((3, 6), (1, 2)),
    Kind.RESHARD: Pace((6, 10)),
}


@pytest.mark.parametrize("reading", Reading)
def test_fleet_misses_and_reorders_nothing_under_every_fault(tmp_path: Path, reading: Reading) -> None:
    shown: list[str] = []
    found = run(SEED, SECONDS, tmp_path, lambda it: shown.append(progress_line(it)), PACES, FAILURE_RATE, reading)
    print(f"seed {SEED}", shown[-1])
    assert (found.subscriptions > 0) == (reading is Reading.FAN_OUT)
    assert found.verdict.missing == ()
    assert found.verdict.out_of_order == ()
    assert found.verdict.broken_tenures == ()
    assert found.verdict.too_far_back == ()
    assert list(found.wrong) == []
    assert found.verdict.put > 1_000
    assert found.verdict.failed_calls > 0
    assert found.faults[Kind.KILL_WORKER] > 0, "and what else there was to hit on a machine as busy as it was"
    assert found.faults[Kind.RESHARD] > 0
    assert found.hit, "the network has to have hit requests"
