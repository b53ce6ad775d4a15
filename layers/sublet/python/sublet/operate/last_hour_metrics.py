"""Reads an application's last hour from its metrics. Seldom, because CloudWatch charges for each request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.errors import CheckRefused
from sublet.operate.rules.last_hour import LastHour, RecordedHour
from sublet.ports import Clock

PACE = timedelta(minutes=1)
"""The pause between two requests."""

SLOW_PACE = timedelta(minutes=15)
"""The pause after a request that got no figures: the application puts no metrics, or these credentials may not read
them.
"""

NOTHING = RecordedHour()


@dataclass(slots=True)
class HourRecorder:
    """Asks CloudWatch for the last hour, at most once a minute. Not thread-safe. `ask`: Inspection.last_hour."""

    ask: Callable[[], RecordedHour]
    clock: Clock
    problem: str = field(default="", init=False)
    """Why the last request failed; empty if it did not."""
    _asked_at: datetime | None = field(default=None, init=False)
    _recorded: RecordedHour = field(default=NOTHING, init=False)

    def added_to(self, hour: LastHour) -> LastHour:
        """Adds CloudWatch's figures to the hour. Raises nothing, because the hour is shown in any case."""
        now = self.clock.steady()
        pace = PACE if any(self._recorded) else SLOW_PACE
        if self._asked_at is None or now - self._asked_at >= pace:
            self._asked_at = now
            try:
                self._recorded, self.problem = self.ask(), ""
            except CheckRefused as refused:
                self._recorded, self.problem = NOTHING, str(refused)
        return hour.with_recorded(self._recorded)
