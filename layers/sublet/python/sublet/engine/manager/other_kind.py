"""Says that the table has leases of the other kind: of a single stream where this application reads several, or the
reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.ports import Ports
from sublet.protocol.lease import Lease, LeaseScan

MULTI_STREAM_LEASES = "leases of a multi-stream KCL in this table: left alone; this application consumes one stream"
SINGLE_STREAM_LEASES = "leases of a single stream in this table: left alone; this application consumes several"

WAITS = (
    "waiting: workers of this application still read the stream by leases of the other kind; it is read on when they "
    "release these leases, or have been silent for failover_time"
)

SAID_EVERY = timedelta(hours=1)
"""They may stay for years, and a quiet fleet ticks each second at times."""


@dataclass(slots=True)
class OtherKindLog:
    """The log of one process: a line when there are such leases, when their number changes, and each hour."""

    _said: tuple[int, int] = 0, 0
    _said_at: datetime | None = None

    def say(self, scan: LeaseScan, waits_for: Sequence[Lease], ports: Ports) -> None:
        others = (*scan.multi_stream, *scan.single_stream)
        now, before, self._said = ports.clock.steady(), self._said, (len(others), len(waits_for))
        is_lately = self._said_at is not None and now - self._said_at < SAID_EVERY
        if not others or (self._said == before and is_lately):
            return
        self._said_at = now
        if waits_for:
            owners = sorted({str(lease.actual_owner) for lease in waits_for})
            ports.log.warning(WAITS, leases=len(waits_for), first=waits_for[0].lease_key, owners=owners[:5])
            return
        what = MULTI_STREAM_LEASES if scan.multi_stream else SINGLE_STREAM_LEASES
        ports.log.warning(what, leases=len(others), first=min(others))
