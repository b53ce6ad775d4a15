"""A day without readers: the deployment is switched off, records keep arriving, and Kinesis trims the oldest.

Nothing younger than a day is ever trimmed, so worlds of minutes do not see retention. In a few of them the fleet is off
for about a day, somewhere in the middle. Records that waited by then, and the first ones of that day, are gone when it
is back, or expire while it catches up. The ledger excuses exactly what was trimmed, and checks that the loss was
reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from sublet.decisions.session.read_position import SHORTEST_RETENTION
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND

if TYPE_CHECKING:
    from sublet.testing.simulation.scheduler import Process
    from sublet.testing.simulation.world import World

DAY = SHORTEST_RETENTION // MICROSECOND

BELIEVED_FOR = 90 * SECOND
"""How long a record is trusted to be still there after a look: a minute, and the time that the answer takes."""


@dataclass(frozen=True, slots=True)
class DayOff:
    """The period without readers, in microseconds."""

    begins: int
    ends: int

    @property
    def lasts(self) -> int:
        return self.ends - self.begins

    def left(self, now: int) -> int:
        """Returns how much of the day off is left; 0 before and after it."""
        return self.ends - now if self.begins <= now < self.ends else 0

    def pause(self, now: int, pause: int) -> int:
        """The producer's pause: a few puts an hour, but as many as usual around the time that is exactly a day old at
        the end.
        """
        expires_first = abs(self.ends - DAY - now) < 600 * SECOND
        return pause if expires_first or not self.left(now) else min(pause * 200, self.ends - now)


NO_DAY_OFF = DayOff(0, 0)


def draw_day_off(chance: Random, how_likely: float, faults_last: int) -> DayOff:
    if chance.random() >= how_likely:
        return NO_DAY_OFF
    begins = int(chance.uniform(0.1, 0.6) * faults_last)
    return DayOff(begins, begins + DAY + int(chance.uniform(-120, 600) * SECOND))


def trim_on(world: World) -> None:
    """Trims from the end of the day off until the faults stop, so that records expire while workers catch up."""
    while world.scheduler.now_us < world.weather.calm_from:
        trim(world)
        world.scheduler.sleep(int(world.chance.uniform(2, 40) * SECOND))


def trim(world: World) -> None:
    """Trims old records. Some losses need not be reported: in a shard that was never begun, since it has no checkpoint
    that could be missed; by a reader that has not read anything yet; and within a minute after a reader has checked.
    """
    before = world.scheduler.now_us - DAY
    world.stream.trim(world.scheduler.now() - SHORTEST_RETENTION)
    for shard_id, truth in world.ledger.shards.items():
        checkpoint, tenancy = world.watch.checkpoints.get(shard_id), world.watch.tenancies.get(shard_id)
        reader = None if tenancy is None or tenancy.owner is None or tenancy.owner.is_dead else tenancy.owner
        is_begun = checkpoint is not None and checkpoint.is_sequence_number
        is_to_be_told = is_begun if reader is None else is_begun and _would_tell(world, reader, shard_id)
        for index in truth.trim(before):
            if is_to_be_told and index >= max(truth.done_with, truth.covered_by(checkpoint or TRIM_HORIZON)):
                world.note("retention", f"takes {index} of {shard_id[-4:]}, unread")
                world.untold.setdefault(shard_id, set()).add(index)


def _would_tell(world: World, reader: Process, shard_id: str) -> bool:
    session = world.ledger.sessions.get((reader, shard_id))
    has_read = session is not None and session.next is not None
    looked_at = world.looked_at.get(shard_id, -DAY)
    return has_read and world.scheduler.now_us - looked_at > BELIEVED_FOR


def told_of_gap(world: World, shard_id: str) -> None:
    """Called when a process reports that records of the shard are lost."""
    truth = world.ledger.shards[shard_id]
    if not truth.trimmed and world.stream.has_shard(shard_id):
        world.fail(f"a data gap of {shard_id} is reported, but nothing was trimmed")
    world.gaps.add(shard_id)
    world.untold.pop(shard_id, None)


def never_told(world: World) -> list[str]:
    """Returns the losses that were never reported, at the end of a world."""
    lost = {
        shard_id: sorted(index for index in indices - truth.finished if index >= truth.done_with)
        for shard_id, indices in world.untold.items()
        for truth in [world.ledger.shards[shard_id]]
    }
    return [f"{len(indices)} of {shard_id[-4:]}, from {indices[0]}" for shard_id, indices in lost.items() if indices]
