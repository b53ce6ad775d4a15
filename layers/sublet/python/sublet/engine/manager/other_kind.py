"""Says that the table has leases of the other kind: of a single stream where this application reads several, or the reverse."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.ports import Ports
from sublet.protocol.lease import LeaseScan

MULTI_STREAM_LEASES = (
    "leases of a multi-stream KCL in this table: left alone; this application consumes one stream"
)
SINGLE_STREAM_LEASES = (
    "leases of a single stream in this table: left alone; this application consumes several"
)

SAID_EVERY = timedelta(hours=1)
"""They may stay for years, and a quiet fleet ticks each second at times."""


@dataclass(slots=True)
class OtherKindLog:
    """The log of one process: a line when there are such leases, when their number changes, and each hour."""

    _said: int = 0
    _said_at: datetime | None = None

    def say(self, scan: LeaseScan, ports: Ports) -> None:
        others = (*scan.multi_stream, *scan.single_stream)
        now = ports.clock.steady()
        is_known = len(others) == self._said and self._said_at is not None
        if not others or (is_known and self._said_at is not None and now - self._said_at < SAID_EVERY):
            self._said = len(others)
            return
        self._said, self._said_at = len(others), now
        what = MULTI_STREAM_LEASES if scan.multi_stream else SINGLE_STREAM_LEASES
        ports.log.warning(what, leases=len(others), first=min(others))
