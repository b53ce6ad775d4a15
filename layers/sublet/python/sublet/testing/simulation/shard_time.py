"""Kinesis' time in one seed's world: how far a poll gets, how accurate arrival times are, and how long producers are
silent.

A world lasts for minutes, so a poll may cover as little as ten seconds. Arrival times are off by up to almost a minute
and do not rise: a later record may have an earlier time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from sublet.testing.memory.walk import LONGEST, Advance, drawn
from sublet.testing.simulation.scheduler import SECOND

STAMPS_DIFFER_BY = timedelta(seconds=55)
"""How far a stamp may be from the true arrival. Two stamps differ by less than the two minutes that readers allow
for.
"""

SHORTEST, MINUTE = timedelta(seconds=10), timedelta(minutes=1)
"""The time that a poll covers."""

EMPTY_RUN_MAX = 40
"""Pages without a record, although there are some."""


@dataclass(frozen=True, slots=True)
class ShardTime:
    chance: Random
    shortest: timedelta
    advance: Advance
    stamps_differ_by: timedelta
    lulls: float
    """The probability that a producer falls silent after a put."""

    def stamp(self, arrived: datetime) -> datetime:
        """The approximate arrival time of a record that arrives now."""
        if not self.stamps_differ_by:
            return arrived
        return arrived + self.stamps_differ_by * self.chance.uniform(-1, 1)

    def lull(self) -> int:
        """Returns a silence in microseconds, long enough for a shard to be known to be quiet."""
        return int(self.chance.uniform(120, 300) * SECOND) if self.chance.random() < self.lulls else 0


def draw_shard_time(chance: Random, *, is_long: bool, is_idle: bool, are_stamps_right: bool) -> ShardTime:
    """`is_long`: the world lasts for more than a day. `is_idle`: producers fall silent often."""
    shortest = MINUTE if is_long else chance.choice((SHORTEST, MINUTE))
    return ShardTime(
        chance,
        shortest,
        drawn(chance, shortest, max(shortest, chance.choice((5 * shortest, LONGEST)))),
        timedelta(0)
        if are_stamps_right
        else chance.choice((timedelta(0), timedelta(seconds=1), STAMPS_DIFFER_BY, STAMPS_DIFFER_BY)),
        chance.choice((0.1, 0.3) if is_idle else (0, 0, 0.02, 0.1)),
    )
