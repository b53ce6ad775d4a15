"""Plans which faults occur and when, from one seed. The same seed plans the same faults."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from random import Random
from typing import NamedTuple


class Kind(StrEnum):
    """What happens, in the report's words. A reshard is no fault, but goes on all the time."""

    KILL_WORKER = "worker killed"
    SUSPEND_WORKER = "worker suspended"
    KILL_MANAGER = "manager killed"
    NETWORK = "network"
    RESHARD = "reshard"


class Trouble(StrEnum):
    """What the network does to a request while it is bad."""

    LOSE_REQUEST = "request lost"
    LOSE_REPLY = "reply lost"
    DELAY = "delayed"
    THROTTLE = "throttled"
    TRUNCATE = "truncated"


class Pace(NamedTuple):
    """Seconds from one fault of a kind to the next, and its duration: minimum and maximum, evenly distributed.

    `spell`: none for this many seconds, then faults for as long, and so on; without it there are faults all the time.
    """

    every: tuple[float, float]
    lasts: tuple[float, float] = (0.0, 0.0)
    spell: float | None = None

    def rests(self, at: float) -> bool:
        return self.spell is not None and at // self.spell % 2 == 0


class Planned(NamedTuple):
    """`at` and `lasts` in seconds, `at` since the start. `chance`, from 0 to 1, decides its victim or its manner."""

    at: float
    kind: Kind
    lasts: float
    chance: float


def plan(seed: int, seconds: float, paces: Mapping[Kind, Pace]) -> list[Planned]:
    """Sorted by time. Each kind has its own random numbers, so that changing one's pace leaves the others alone.

    No fault lasts beyond `seconds`; two faults of one kind do not overlap.
    """
    planned: list[Planned] = []
    for kind, pace in paces.items():
        chance = Random(f"{seed} {kind}")
        at = chance.uniform(0, pace.every[1]) / 2
        while (lasts := chance.uniform(*pace.lasts)) + at <= seconds:
            if not pace.rests(at):
                planned.append(Planned(at, kind, lasts, chance.random()))
            at += max(chance.uniform(*pace.every), lasts)
    return sorted(planned)
