"""How fast records are put by hand: `100/s`, without a burst after a pause."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

PERIODS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
CATCHES_UP = timedelta(seconds=1)
"""What a pause has held up is made up for within this time at most. The rest is late for good."""

AT_MOST = 100_000
"""Records a second: beyond what one process puts."""


class PutRate(NamedTuple):
    records: int
    per: timedelta

    @classmethod
    def parse(cls, text: str) -> PutRate:
        """Raises ValueError."""
        found = re.fullmatch(r"(\d{1,9})/([smh])", text, re.ASCII)
        rate = None if found is None else cls(int(found[1]), PERIODS[found[2]])
        if rate is None or not rate.records or rate.records / rate.per.total_seconds() > AT_MOST:
            raise ValueError(
                f"{text!r} is not a rate such as 100/s, 30/m or 5/h, of at most {AT_MOST:,} records a second"
            )
        return rate


@dataclass(slots=True)
class RatePacing:
    """When the next record is due. Call `wait` before each."""

    rate: PutRate
    _began: datetime | None = None
    _put: int = 0

    def wait(self, now: datetime) -> timedelta:
        """How long to wait before the next record. `now`: by a steady clock."""
        if self._began is None or now - self._due > CATCHES_UP:
            self._began, self._put = now, 0
        wait = max(self._due - now, timedelta(0))
        self._put += 1
        return wait

    @property
    def _due(self) -> datetime:
        assert self._began is not None, "after the first"
        return self._began + self.rate.per * self._put / self.rate.records
