"""The driver's looks into shards: for an existing record at which the next batch can end.

Moments only steer the search, since arrival times need not rise with sequence numbers: what is found counts only if it
lies beyond the position by its sequence number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sublet.decisions.read_position import IteratorType, ReadPosition
from sublet.protocol.hash_keys import keys_inside
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.settings import POLL_LIMIT_MAX
from sublet.spark.plan.offsets import Ended, ReadTo
from sublet.spark.plan.planning import Begin, Peek
from sublet.spark.read.connection import Connection
from sublet.spark.read.counting import NO_LIMIT, ShardCount, Share, read_to
from sublet.spark.read.pages import read_pages
from sublet.spark.read.positions import is_at_tip, is_beyond, open_at

LOOKBACK = timedelta(seconds=1)
"""A batch ends about this far before the tip of a busy shard; an idle shard's batch ends at its tip."""

WIDEN = 16
"""Nothing in the last second: look 16, 256, ... seconds back."""

BUSY_LIMIT = 100
"""Records of a look into the last second: a fraction of what a task will read again."""

FIRST_OF_A_SPAN = 500
"""Records of a task's first page, where it is not known how many the batch has: more than that follow."""

OLDEST = timedelta(days=400)
"""Longer than any retention."""

_NO_LAG = timedelta(0)


@dataclass(frozen=True, slots=True)
class _Found:
    """Where a search came to. `record` lies beyond the position; `is_end`: the shard's end was seen."""

    record: StreamRecord | None
    page: Page | None

    @property
    def is_end(self) -> bool:
        return self.page is not None and self.page.is_shard_end

    def peek(self) -> Peek:
        lag = timedelta(milliseconds=self.page.millis_behind_latest) if self.page is not None else _NO_LAG
        if self.record is not None:
            return Peek(read_to(self.record), lag=lag)
        return Peek(Ended()) if self.is_end else Peek(None, caught_up=lag == _NO_LAG, lag=lag)


class Peeker:
    """Looks into shards, each shard by one thread at a time.

    Remembers where it found nothing: the iterator there stands at the tip, and the next look is one call.
    """

    def __init__(self, connection: Connection, *, filters: bool = False) -> None:
        """`filters`: what is out of a shard's hash key range may be dropped."""
        self._connection = connection
        self._filters = filters
        self._at_tip: dict[str, tuple[Begin, Iterator[Page]]] = {}
        self._counts: dict[str, ShardCount] = {}

    def look(
        self,
        shard: Shard,
        position: Begin,
        share: Share = NO_LIMIT,
        placement: Placement = NOT_DESCRIBED,
    ) -> Peek:
        """Where a batch from `position` may end. `placement`: what the batch's tasks go by."""
        if share.counts:
            return self._count(shard, position, share, placement)
        if share.span is not None and (peek := self._span(shard, position, share.span)):
            return peek
        return Peek(Ended()) if not shard.is_open else self._search(shard.shard_id, position)

    def tip(self, shard: Shard, position: Begin) -> Peek:
        """The last record that arrived before now; the page that shows it is empty, or its records arrived later."""
        if not shard.is_open:
            return Peek(Ended())
        now, found = self._connection.clock.now(), self._near_tip(shard.shard_id, position)
        if found.record is None:
            return found.peek()
        at = ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, found.record.sequence_number)
        last = found.record
        for page in self._pages(shard.shard_id, at):
            if page.records:
                last = page.records[-1]
            if last.approximate_arrival_timestamp >= now or is_at_tip(page):
                break
        return Peek(read_to(last))

    def _search(self, shard_id: str, position: Begin) -> Peek:
        remembered = self._at_tip.pop(shard_id, None)
        if remembered is not None and remembered[0] == position:
            return self._first(shard_id, position, remembered[1]).peek()
        return self._near_tip(shard_id, position).peek()

    def _near_tip(self, shard_id: str, position: Begin) -> _Found:
        """Something beyond the position, as near to the tip as a look into the last second finds."""
        now = self._connection.clock.now()
        floor = _moment_of(position)
        back, limit = LOOKBACK, BUSY_LIMIT
        while now - back > floor and back < OLDEST:
            at = ReadPosition(IteratorType.AT_TIMESTAMP, at=now - back)
            found = self._first(shard_id, position, self._pages(shard_id, at, limit), look_only=True)
            if found.record is not None or found.is_end:
                return found
            if found.page is not None and found.page.records:
                break  # all of it read already: whatever is new is just after the position
            back, limit = back * WIDEN, POLL_LIMIT_MAX
        return self._first(shard_id, position, self._pages(shard_id, open_at(position), limit))

    def _first(
        self, shard_id: str, position: Begin, pages: Iterator[Page], *, look_only: bool = False
    ) -> _Found:
        """The last record of the first page that has something beyond the position; nothing if the tip comes first."""
        page: Page | None = None
        for page in pages:
            if page.records and (look_only or is_beyond(page.records[-1], position)):
                break
            if is_at_tip(page):
                if not look_only and not page.is_shard_end:
                    self._at_tip[shard_id] = (position, pages)
                return _Found(None, page)
        last = page.records[-1] if page is not None and page.records else None
        return _Found(last if last is not None and is_beyond(last, position) else None, page)

    def _count(self, shard: Shard, position: Begin, share: Share, placement: Placement) -> Peek:
        """Goes on where the last count ended, if the batch begins there."""
        shard_id = shard.shard_id
        count = self._counts.pop(shard_id, None)
        if count is None or not count.is_at(position):
            inside = keys_inside(shard.hash_key_range if self._filters else None)
            count = ShardCount(
                position, inside, lambda at, limit: read_pages(self._connection, shard_id, at, limit)
            )
        peek = count.admit(share, self._connection.clock.now(), placement)
        if not isinstance(peek.end, Ended):
            self._counts[shard_id] = count
        return peek

    def _span(self, shard: Shard, position: Begin, span: timedelta) -> Peek | None:
        """The first record that arrived `span` after the position; None when all that is unread is younger."""
        begins_at = self._begins_at(shard.shard_id, position)
        if begins_at is None or begins_at + span >= self._connection.clock.now():
            return None
        at = ReadPosition(IteratorType.AT_TIMESTAMP, at=begins_at + span)
        found = self._first(shard.shard_id, position, self._pages(shard.shard_id, at, 1), look_only=True)
        if found.record is None:
            return None
        return Peek(read_to(found.record), lag=self._age(found.record), records=FIRST_OF_A_SPAN)

    def _begins_at(self, shard_id: str, position: Begin) -> datetime | None:
        """When the position's record arrived, or else the first unread one; None when there is none."""
        known = position.arrived if isinstance(position, ReadTo) else position.at
        if known is not None:
            return known
        first = self._first_record(shard_id, open_at(position))
        return None if first is None else first.approximate_arrival_timestamp

    def holds(self, shard_id: str, record: ReadTo) -> bool:
        """Whether the record is still there: then all that came after it is."""
        first = self._first_record(
            shard_id, ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, record.sequence_number)
        )
        return first is not None and int(first.sequence_number) == int(record.sequence_number)

    def holds_any(self, shard_id: str) -> bool:
        """Whether any record of the shard is still there: then all of its children's are."""
        return self._first_record(shard_id, ReadPosition(IteratorType.TRIM_HORIZON)) is not None

    def _first_record(self, shard_id: str, at: ReadPosition) -> StreamRecord | None:
        for page in self._pages(shard_id, at, 1):
            if page.records:
                return page.records[0]
            if is_at_tip(page):
                break
        return None

    def _age(self, record: StreamRecord) -> timedelta:
        return max(self._connection.clock.now() - record.approximate_arrival_timestamp, _NO_LAG)

    def _pages(self, shard_id: str, at: ReadPosition, limit: int = POLL_LIMIT_MAX) -> Iterator[Page]:
        return read_pages(self._connection, shard_id, at, lambda: limit)


def _moment_of(position: Begin) -> datetime:
    """No record beyond the position arrived much earlier."""
    moment = position.arrived if isinstance(position, ReadTo) else position.at
    return moment or datetime.min.replace(tzinfo=UTC)
