"""Time and chance as arguments: what decisions take instead of a clock and a random generator."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol


class Instant(NamedTuple):
    """One moment by both clocks, for rules that must hold even if one of them is wrong.

    `wall` jumps when the clock is set; `steady` stands still while the machine is suspended.
    """

    wall: datetime
    steady: datetime

    def since(self, earlier: Instant) -> timedelta:
        """How long this process has been running since then."""
        return self.steady - earlier.steady

    def at_most_since(self, earlier: Instant) -> timedelta:
        """The most time that may have passed for other machines: the larger difference of the two clocks."""
        return max(self.steady - earlier.steady, self.wall - earlier.wall)


class Chance(Protocol):
    """The part of `random.Random` that decisions use. With a seeded one every plan can be repeated."""

    def shuffle(self, x: list[Any], /) -> None: ...

    def getrandbits(self, k: int, /) -> int: ...
