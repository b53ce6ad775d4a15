"""What waits in a failure destination: how much, since when, and when it is deleted unhandled; and the batches."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.decisions.plurals import counted
from sublet.operate.formatting import time_text
from sublet.protocol.failure_document import SetAsideBatch

FORGOTTEN_SOON = timedelta(days=4)
"""How long before a set-aside batch is deleted we begin to say so."""


class SetAsideWaiting(Struct, frozen=True):
    """What a failure destination keeps.

    batches       about how many, hidden ones included; a queue counts those of all applications
    oldest        since when the oldest batch is kept; None if that is not known, or nothing is kept
    forgotten_at  when the destination deletes that batch; None if it never does, or that is not known
    """

    batches: int
    oldest: datetime | None = None
    forgotten_at: datetime | None = None

    def left(self, now: datetime) -> timedelta | None:
        """The time until the oldest batch is deleted; None if it never is, or that is not known."""
        return None if self.forgotten_at is None else max(self.forgotten_at - now, timedelta(0))


class SetAsideBatches(Struct, frozen=True):
    """The first batches of an application that a failure destination keeps.

    unreadable  why each of the others that were looked at cannot be read
    foreign     how many of those that were looked at are of other applications
    problem     why none could be looked at
    """

    batches: tuple[SetAsideBatch, ...] = ()
    unreadable: tuple[str, ...] = ()
    foreign: int = 0
    problem: str = ""

    @property
    def looked_at(self) -> int:
        return len(self.batches) + len(self.unreadable) + self.foreign


def batch_text(batch: SetAsideBatch) -> tuple[str, str]:
    """Describes a batch in two lines: where it is, and why and when it was set aside. Shows no data of a record."""
    first, last = batch.records[0].checkpoint, batch.records[-1].checkpoint
    places = str(first) if len(batch.records) == 1 else f"{first} to {last}"
    error = "" if batch.failure is None else f", {batch.failure.type}"
    return (
        f"{batch.shard_id}  {counted(len(batch.records), 'record')}  {places}",
        f"  set aside {time_text(batch.at)}: {batch.condition}, {counted(batch.attempts, 'attempt')}{error}",
    )


def batch_lines(found: SetAsideBatches, waiting: SetAsideWaiting) -> tuple[str, ...]:
    """Describes each batch that was found, and how many more there are: of all applications, as a queue counts."""
    if found.problem:
        return (f"they could not be looked at: {found.problem}",)
    lines = [line for batch in found.batches for line in batch_text(batch)]
    lines += [f"cannot be read: {reason}" for reason in found.unreadable]
    if found.foreign:
        lines.append(f"{counted(found.foreign, 'batch', 'batches')} of other applications")
    more = waiting.batches - found.looked_at
    if more > 0:
        lines.append(f"and about {more:,} more")
    return tuple(lines)


def set_aside_text(waiting: SetAsideWaiting, now: datetime) -> str:
    if not waiting.batches:
        return "nothing waits"
    text = f"about {counted(waiting.batches, 'batch waits', 'batches wait')}"
    if waiting.oldest is not None:
        text += f"; the oldest since {waiting.oldest:%Y-%m-%dT%H:%M:%SZ}"
    left = waiting.left(now)
    if left is not None and left <= FORGOTTEN_SOON:
        text += f", which its destination deletes in {left / timedelta(hours=1):.0f} h"
    return text


def set_aside_json(waiting: SetAsideWaiting) -> dict[str, object]:
    """Times are ISO 8601."""
    return {
        "batches": waiting.batches,
        "oldest": None if waiting.oldest is None else waiting.oldest.isoformat(),
        "forgotten_at": None if waiting.forgotten_at is None else waiting.forgotten_at.isoformat(),
    }
