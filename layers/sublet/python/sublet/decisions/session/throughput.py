"""A lease's throughput, as a KCL 3.x leader reads it in the lease's row: KCL's moving average (its
LeaseStatsRecorder).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

ALPHA = 0.5
"""KCL's weight of the last interval against all before it."""

_KIB = 1024


class Throughput(Struct, frozen=True):
    """The average as of `at`, by when `total` bytes had been handled.

    `kib_per_second` is None until a lease's first interval is over: the leader then assumes an average lease.
    """

    kib_per_second: float | None
    total: int
    at: datetime

    def after(self, total: int, now: datetime, interval: timedelta) -> Throughput:
        """Updates once per interval, however often it is called."""
        since = now - self.at
        if since < interval:
            return self
        return Throughput(averaged(self.kib_per_second, (total - self.total) / _KIB, since), total, now)


def averaged(before: float | None, amount: float, since: timedelta) -> float:
    """The moving average per second, after `amount` more in the last interval `since`. `before`: None for the first
    interval.
    """
    latest = amount / since.total_seconds()
    return latest if before is None else ALPHA * latest + (1 - ALPHA) * before
