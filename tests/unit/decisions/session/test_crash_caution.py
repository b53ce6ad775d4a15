"""How a lease is tried again if its owners keep crashing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.crash_caution import (
    LONGEST_PAUSE,
    CrashCaution,
    caution,
    crashes_by_hanging,
    pause_before,
)
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.settings import Settings

SETTINGS = Settings(application="orders", stream="events", failover_time=timedelta(seconds=30))
LEASE = Lease("shardId-0", TRIM_HORIZON)


@pytest.mark.parametrize(
    ("crashes", "step", "seconds"),
    [
        (0, CrashCaution.NONE, 0),
        (1, CrashCaution.CHECKPOINT_EACH_BATCH, 0),
        (2, CrashCaution.ALONE, 0),
        (3, CrashCaution.PAUSES, 30),
        (4, CrashCaution.PAUSES, 60),
        (5, CrashCaution.PAUSES, 120),
        (50, CrashCaution.PAUSES, LONGEST_PAUSE.total_seconds()),
    ],
)
def test_each_crash_takes_more_care(crashes: int, step: CrashCaution, seconds: float) -> None:
    lease = replace(LEASE, crashes=crashes)
    assert caution(lease) is step
    assert pause_before(lease, SETTINGS).total_seconds() == seconds


@pytest.mark.parametrize(("crashes", "adds"), [(0, 2), (1, 1), (2, 1), (7, 1)])
def test_hung_call_counts_crashes_until_its_lease_is_tried_alone(crashes: int, adds: int) -> None:
    assert crashes_by_hanging(replace(LEASE, crashes=crashes)) == adds
