"""One moment by both clocks, for rules that must hold even if one of them is wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple


class Instant(NamedTuple):
    """`wall` jumps when the clock is set; `steady` stands still while the machine is suspended."""

    wall: datetime
    steady: datetime

    def since(self, earlier: Instant) -> timedelta:
        """How long this process has been running since then."""
        return self.steady - earlier.steady

    def at_most_since(self, earlier: Instant) -> timedelta:
        """The most time that may have passed for other machines: the larger difference of the two clocks."""
        return max(self.steady - earlier.steady, self.wall - earlier.wall)
