"""The real clocks. No other module of the library asks the system for the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The Clock port. The steady clock starts at the wall clock's time and follows the system's monotonic clock."""

    def __init__(self) -> None:
        self._began_at = datetime.now(UTC)
        self._began = time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def steady(self) -> datetime:
        return self._began_at + timedelta(0, time.monotonic() - self._began)  # half the time of `seconds=`
