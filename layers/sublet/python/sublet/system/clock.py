"""The real clocks. No other module of the library asks the system for the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The Clock port. The steady clock starts at the wall clock's time and follows the system's monotonic clock."""

    def __init__(self) -> None:
        self._at_zero = datetime.now(UTC) - timedelta(0, time.monotonic())
        """The steady clock's time when the monotonic clock was at zero."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def steady(self) -> datetime:
        return self._at_zero + timedelta(0, time.monotonic())  # half the time of `seconds=`
