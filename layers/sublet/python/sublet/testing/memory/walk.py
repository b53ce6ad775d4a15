"""How far one GetRecords call gets through a shard's time.

Kinesis stores a shard by time, and one call searches a bounded part of it. A shard that is opened at an old position
and has had no records since returns empty pages that lag until the calls have walked up to now. AWS does not say how
long that part is; one public figure is 250 calls for a day.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

Advance = Callable[[], timedelta]
"""How much of the shard's time the next call covers."""

SHORTEST, LONGEST = timedelta(minutes=1), timedelta(hours=1)


def drawn(chance: Random, shortest: timedelta = SHORTEST, longest: timedelta = LONGEST) -> Advance:
    """A random part each time; short ones are as likely as long ones."""

    def advance() -> timedelta:
        times: float = (longest / shortest) ** chance.random()
        return shortest * times

    return advance
