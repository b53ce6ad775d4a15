"""How much waits in a failure destination, since when, and when it is deleted unhandled."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.decisions.plurals import counted

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
