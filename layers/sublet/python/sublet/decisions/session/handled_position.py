"""How far a shard is handled, in time, from one page that was read at its lease's position."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.session.lag import LEAST
from sublet.protocol.lease import Lease
from sublet.protocol.records import Page


class HandledPosition(NamedTuple):
    """How far a shard is handled, in time.

    handled_to  when the last handled record arrived; None if none is handled, or it is past retention
    lag         how far the handled records are behind the shard's newest; zero if all are handled. None: the page was
                empty and lagged, which does not show it
    """

    handled_to: datetime | None
    lag: timedelta | None


def position_of(lease: Lease, page: Page, now: datetime) -> HandledPosition:
    """Reads a page of one record, which was polled at the lease's position. That is the checkpointed record, if there
    is one.
    """
    behind = timedelta(milliseconds=page.millis_behind_latest)
    if not page.records:
        return HandledPosition(None, None if behind else behind)
    (first, *_) = page.records
    arrived = first.approximate_arrival_timestamp
    if first.sequence_number == lease.checkpoint.sequence_number:
        return HandledPosition(arrived, behind)
    return HandledPosition(None, max(now - arrived, behind, LEAST))
