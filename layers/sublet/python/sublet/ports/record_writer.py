"""PutRecords."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sublet.protocol.records import NewRecord, PutRefused
    from sublet.protocol.stream_info import PutRecord


class RecordWriter(Protocol):
    """Puts records into one stream. Safe for threads."""

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        """Call PutRecords once, without retries. Returns for each record where it was stored, or why it may not have
        been. If the reply is lost, all records count as refused, though some may be stored. A record may be refused and
        a later one stored.

        Raises StreamNotFound, StreamKeyUnavailable, StreamAccessDenied, and RecordRefused if the service will never
        accept the call and does not say which records are to blame.
        """
