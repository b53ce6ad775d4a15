"""How much a lease brings, as a KCL 3.x leader reads it in the lease's row: KCL's moving average (its LeaseStatsRecorder)."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

ALPHA = 0.5
"""KCL's: how much the last interval weighs against all before it."""

_KIB = 1024


class Throughput(Struct, frozen=True):
    """Since `at` nothing has been added to `kib_per_second`; `total` bytes had been handled by then.

    A lease that has never had one is None until its first interval is over: the leader then takes it for an average one.
    """

    kib_per_second: float | None
    total: int
    at: datetime

    def after(self, total: int, now: datetime, interval: timedelta) -> Throughput:
        """Once an interval, however often it is asked."""
        since = now - self.at
        if since < interval:
            return self
        latest = (total - self.total) / _KIB / since.total_seconds()
        before = latest if self.kib_per_second is None else self.kib_per_second
        return Throughput(ALPHA * latest + (1 - ALPHA) * before, total, now)
