"""Decides when a producer's loop lists the stream's shards."""

from __future__ import annotations

from datetime import datetime, timedelta

from sublet.decisions.putting.placing import RecordPlacing
from sublet.putting.placing_source import PlacingSource

LISTED_AFTER = timedelta(milliseconds=100)
LISTED_LATEST = timedelta(seconds=2)
"""The shortest and the longest pause between two listings. A pause is doubled while listings do not help."""


class ShardListings:
    """Listings one at a time. All methods but `look` are called with the loop's lock."""

    def __init__(self, source: PlacingSource, now: datetime) -> None:
        self._source = source
        self._found: RecordPlacing | None = None
        self._is_under_way = False
        self._pause = LISTED_AFTER
        self.next_at = now
        """No listing begins before this."""

    def is_wanted(self, *, by_records: bool) -> bool:
        """Whether to list the shards. `by_records`: records wait for a listing."""
        if self._is_under_way:
            return False
        return by_records or (self._found is not None and self._source.is_due(self._found))

    def begin(self, now: datetime) -> bool:
        """Begins a listing, if one is wanted. Returns whether it may begin now: then call `look`, then `end`."""
        if self.next_at > now:
            return False
        self._is_under_way = True
        return True

    def look(self) -> RecordPlacing | Exception:
        try:
            return self._source.look(is_doubted=self._found is not None)
        except Exception as failure:  # noqa: BLE001 -- the futures of records that wait for the listing raise it
            return failure

    def end(self, found: RecordPlacing | Exception, now: datetime, *, has_helped: bool) -> None:
        if isinstance(found, RecordPlacing):
            self._found = found
        self._is_under_way = False
        self._pause = LISTED_AFTER if has_helped else min(self._pause * 2, LISTED_LATEST)
        self.next_at = now + self._pause
