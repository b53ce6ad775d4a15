"""One moment by both clocks, for what has to hold whichever of them is wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple


class Instant(NamedTuple):
    """`wall` jumps when somebody sets the clock; `steady` stands still while the machine is suspended."""

    wall: datetime
    steady: datetime

    def since(self, earlier: Instant) -> timedelta:
        """How long this process has been running since then."""
        return self.steady - earlier.steady

    def at_most_since(self, earlier: Instant) -> timedelta:
        """How long it may have been for others, by whichever clock says more."""
        return max(self.steady - earlier.steady, self.wall - earlier.wall)
