"""Which leases have lost their owner, judged from counters alone: the lease table holds no time (KCL).

A sighting remembers when a lease manager first saw a counter value. Whoever later finds the same value still there knows
that it has not moved in between, since a counter only ever rises. So sightings stay true when ticks overlap and the last
writer wins: a lost update can only delay an expiry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.protocol.lease import Lease


@dataclass(frozen=True, slots=True)
class Sighting:
    """This lease, with this owner and counter, was first seen at `seen_at`."""

    lease_counter: int
    lease_owner: str | None
    seen_at: datetime
