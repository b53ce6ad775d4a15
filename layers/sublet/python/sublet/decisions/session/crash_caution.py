"""How to retry a lease whose owners keep crashing before they checkpoint.

A record that kills its process (out of memory, os._exit, a fault in C) costs the worker all its leases, and it is not
known which one was to blame. Tried with care, the innocent leases checkpoint, and that clears them. A hung handler call
counts as a crash too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import IntEnum

from sublet.protocol.lease import Lease
from sublet.settings import Settings

LONGEST_PAUSE = timedelta(minutes=15)


class CrashCaution(IntEnum):
    """What it takes to try a lease again. Each step includes the ones before it."""

    NONE = 0
    CHECKPOINT_EACH_BATCH = 1
    """A crash costs the other leases one batch, not a window."""
    ALONE = 2
    """Tries the lease in a worker item of its own, so that a crash ends only its own worker."""
    PAUSES = 3
    """Tries the lease after a pause that doubles with each crash: the cause may be outside and need time to recover."""


def caution(lease: Lease) -> CrashCaution:
    return CrashCaution(min(lease.crashes, CrashCaution.PAUSES))


def careful_until(lease: Lease, now: datetime, settings: Settings) -> datetime:
    """The moment until which a session that begins now checkpoints each batch at once; `now` if no owner has crashed.

    The first checkpoint clears the row's crashes, but the fatal record may be further on: up to where the dead owner
    was, which had checkpointed less than a checkpoint_interval before.
    """
    return now + settings.checkpoint_interval if caution(lease) >= CrashCaution.CHECKPOINT_EACH_BATCH else now


def crashes_by_hanging(lease: Lease) -> int:
    """What a hung handler call adds to the count of crashes: enough that the lease is tried alone from then on. Which
    lease hung is known, and it kept a slot from the other leases.
    """
    return max(1, CrashCaution.ALONE - lease.crashes)


def pause_before(lease: Lease, settings: Settings) -> timedelta:
    """How long the lease is left alone after its last owner was seen: one failover time, doubled by each further
    crash.
    """
    if caution(lease) < CrashCaution.PAUSES:
        return timedelta(0)
    return min(settings.failover_time * (1 << min(lease.crashes - CrashCaution.PAUSES, 20)), LONGEST_PAUSE)
