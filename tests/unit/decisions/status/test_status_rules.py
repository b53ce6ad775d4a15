"""What the scenarios of verdicts on a shard leave out: positions without a sequence number, and lags once it has
moved.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sublet.decisions.status.lease_history import LagObservation
from sublet.decisions.status.status_rules import Status, standing_of
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint
from sublet.protocol.lease import Lease, Position
from sublet.testing.memory.clock import BEGINNING

NOW = BEGINNING
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (NOW - HOUR, NOW - 2 * HOUR, Status.REWOUND),
        (NOW - 2 * HOUR, NOW - HOUR, Status.UNKNOWN),
        (NOW - HOUR, None, Status.UNKNOWN),
        (None, NOW - HOUR, Status.UNKNOWN),
    ],
)
def test_a_lease_at_a_time_is_rewound_only_to_an_earlier_time(
    before: datetime | None, after: datetime | None, word: Status
) -> None:
    """A Java worker's row has no time."""
    seen = LagObservation(NOW - timedelta(minutes=1), Position(AT_TIMESTAMP, before), timedelta(minutes=5))
    lease = Lease("shard-1", AT_TIMESTAMP, 7, "worker", start_at=after)
    assert standing_of(lease, (seen,), NOW).verdict.status is word


@pytest.mark.parametrize(
    ("behind", "now_at", "lag"),
    [
        (5 * MINUTE, 50, 6 * MINUTE),
        (5 * MINUTE, 150, 5 * MINUTE),
        (0 * MINUTE, 50, None),
        (0 * MINUTE, 150, 0 * MINUTE),
    ],
)
def test_lag_stays_when_the_position_moved_on_and_grows_when_moved_back(
    behind: timedelta, now_at: int, lag: timedelta | None
) -> None:
    seen = LagObservation(NOW - MINUTE, Position(Checkpoint("100")), behind)
    lease = Lease("shard-1", Checkpoint(str(now_at)), 7, "worker")
    assert standing_of(lease, (seen,), NOW).behind == lag
