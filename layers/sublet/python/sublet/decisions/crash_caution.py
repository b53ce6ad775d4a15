"""What to do with a lease whose owners keep crashing before they get any further.

A record that kills its process (out of memory, os._exit, a fault in C) takes down every lease of the worker along with its own.
Which one was to blame nobody saw; but the innocent get further when they are tried with care, and that clears them. A handler
call that hangs counts too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import IntEnum

from sublet.protocol.lease import Lease
from sublet.settings import Settings

LONGEST_PAUSE = timedelta(minutes=15)


class Caution(IntEnum):
    """What it takes to try a lease again. Each step includes the ones before it."""

    NONE = 0
    CHECKPOINT_EACH_BATCH = 1
    """A crash costs its neighbours one batch, not a window."""
    ALONE = 2
    """In a worker item of its own: what it kills is its own worker."""
    PAUSES = 3
    """Only after a while, which doubles with each crash: something outside may be what has to mend."""


def caution(lease: Lease) -> Caution:
    return Caution(min(lease.crashes, Caution.PAUSES))


def careful_until(lease: Lease, now: datetime, settings: Settings) -> datetime:
    """Until when what is finished is checkpointed at once, by a reading that begins now; `now` if no owner has crashed.

    The first checkpoint clears the row of its crashes, but what kills may be further on: as far as the owner that died had got
    since its last checkpoint, which was less than a checkpoint_interval before.
    """
    return now + settings.checkpoint_interval if caution(lease) >= Caution.CHECKPOINT_EACH_BATCH else now


def crashes_by_hanging(lease: Lease) -> int:
    """What a hung handler call adds to the count. Whose call it was is known, so the lease is tried alone from then on: it has
    had the slot that its neighbours waited for.
    """
    return max(1, Caution.ALONE - lease.crashes)


def pause_before(lease: Lease, settings: Settings) -> timedelta:
    """How long it is left alone since its last owner was seen: a failover time at first, doubled by each further crash."""
    if caution(lease) < Caution.PAUSES:
        return timedelta(0)
    return min(settings.failover_time * (1 << min(lease.crashes - Caution.PAUSES, 20)), LONGEST_PAUSE)
