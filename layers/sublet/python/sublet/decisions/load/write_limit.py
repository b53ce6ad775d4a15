"""A shard's write limit: 1,000 records and 1 MiB a second."""

from __future__ import annotations

from datetime import datetime, timedelta

RECORDS_PER_SECOND = 1_000
BYTES_PER_SECOND = 2**20
"""Kinesis' limits for one shard. Bytes are those of data and partition keys."""

_NOW = timedelta(0)


class WriteLimit:
    """Keeps one producer within a share of the limit. An idle shard has a second's worth to spend at once.

    A call may spend more than is left, since a record may be larger than a second's worth: then nothing may be sent
    until the debt is paid. Changed in place.
    """

    __slots__ = ("_at", "_bytes", "_records", "_share")

    def __init__(self, share: float, now: datetime) -> None:
        """`share`: how much of the limit to use; 1.0 is all of it."""
        self._share = share
        self._records = share * RECORDS_PER_SECOND
        self._bytes = share * BYTES_PER_SECOND
        self._at = now

    def spend(self, records: int, size: int, now: datetime) -> None:
        self._fill(now)
        self._records -= records
        self._bytes -= size

    def wait(self, now: datetime) -> timedelta:
        """How long until anything may be sent."""
        self._fill(now)
        if self._records > 0 and self._bytes > 0:
            return _NOW
        records = (1 - self._records) / (self._share * RECORDS_PER_SECOND)
        size = (1 - self._bytes) / (self._share * BYTES_PER_SECOND)
        return timedelta(seconds=max(records, size, 0.001))

    def _fill(self, now: datetime) -> None:
        seconds = (now - self._at).total_seconds()
        if seconds > 0:
            self._at = now
            most = self._share * RECORDS_PER_SECOND, self._share * BYTES_PER_SECOND
            self._records = min(self._records + seconds * most[0], most[0])
            self._bytes = min(self._bytes + seconds * most[1], most[1])
