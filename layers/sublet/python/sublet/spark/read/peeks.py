"""The driver's looks into shards. Each looks for an existing record at which the next batch can end.

Arrival times only guide the search, because they need not rise with sequence numbers. A record counts only if its
sequence number is beyond the position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain

from sublet.decisions.session.quiet import MILLISECOND, reached_by
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.protocol.hash_keys import keys_inside
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.settings import POLL_LIMIT_MAX
from sublet.spark.plan.offsets import Ended, ReadTo
from sublet.spark.plan.planning import Begin, ShardPeek
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.counting import NO_LIMIT, BatchShare, ShardCount, read_to
from sublet.spark.read.pages import first_record_at, mean_bytes, read_pages
from sublet.spark.read.positions import is_at_tip, is_beyond, open_at, opening

LOOKBACK = timedelta(seconds=1)
"""A batch ends about this far before a busy shard's tip; an idle shard's batch ends at its tip."""

WIDEN = 16
"""How much further back each look goes: if the last second is empty, 16 seconds, then 256, and so on."""

NEAR = LOOKBACK * WIDEN
"""If nothing arrived later than this after a record, the record is near the tip: a page or two hold the rest, since a
shard takes 1 MB or 1,000 records a second."""

BUSY_LIMIT = 100
"""How many records a look into the last second asks for: a fraction of what a task will read again."""

FIRST_OF_A_SPAN = 500
"""The size of a task's first page, in records, if only this is known of the batch: it has more records than this."""

OLDEST = timedelta(days=400)
"""Longer than any retention."""

ITERATOR_IS_USED_FOR = timedelta(minutes=4)
"""Kinesis' iterators expire after five."""

_NO_LAG = timedelta(0)


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a search. `record` is beyond the position; `is_end`: the search came to the shard's end."""

    record: StreamRecord | None
    page: Page | None
    quiet_until: datetime | None = None
    walked: int = 0

    @property
    def is_end(self) -> bool:
        return self.page is not None and self.page.is_shard_end

    @property
    def is_all(self) -> bool:
        """Whether the page has all that was unread: it is not full, and the service says that nothing is behind it."""
        page = self.page
        is_last = page is not None and page.millis_behind_latest == 0 and len(page.records) < BUSY_LIMIT
        return self.record is not None and is_last

    def is_near(self, empty_from: datetime) -> bool:
        """`empty_from`: nothing arrived from this moment on."""
        return self.record is not None and empty_from - self.record.approximate_arrival_timestamp <= NEAR

    @property
    def record_bytes(self) -> int | None:
        return None if self.page is None else mean_bytes(self.page)

    def peek(self) -> ShardPeek:
        lag = timedelta(milliseconds=self.page.millis_behind_latest) if self.page is not None else _NO_LAG
        if self.record is not None:
            return ShardPeek(read_to(self.record), lag=lag, record_bytes=self.record_bytes)
        if self.is_end:
            return ShardPeek(Ended())
        return ShardPeek(None, lag == _NO_LAG, lag, None, self.quiet_until, self.walked)


@dataclass(frozen=True, slots=True)
class _AtTip:
    """Pages that were at the tip when last requested, at this steady time."""

    position: Begin
    pages: Iterator[Page]
    since: datetime


class Peeker:
    """Looks into shards. Only one thread at a time may look into a given shard.

    Where it found nothing it keeps the iterator, which is at the tip, so that the next look is one call.
    """

    def __init__(self, connection: StreamAccess, *, filters: bool = False, to_last_record: bool = False) -> None:
        """
        filters         records outside a shard's hash key range may be dropped
        to_last_record  a closed shard is one in which nothing more arrives: a batch ends at a record of it
        """
        self._connection = connection
        self._filters = filters
        self._to_last_record = to_last_record
        self._at_tip: dict[str, _AtTip] = {}
        self._quiet: dict[str, tuple[Begin, datetime]] = {}
        """By shard id: a position, and a time before which nothing beyond it arrived."""
        self._counts: dict[str, ShardCount] = {}

    def look(
        self,
        shard: Shard,
        position: Begin,
        share: BatchShare = NO_LIMIT,
        placement: Placement = NOT_DESCRIBED,
        quiet_until: datetime | None = None,
    ) -> ShardPeek:
        """Where a batch from `position` may end.

        placement     the one that the batch's tasks use
        quiet_until   nothing beyond the position arrived before this time
        """
        self._note_quiet(shard.shard_id, position, quiet_until)
        if share.counts:
            return self._count(shard, position, share, placement)
        if share.span is not None and (peek := self._span(shard, position, share.span)):
            return peek
        return ShardPeek(Ended()) if self._may_end(shard) else self._search(shard.shard_id, position)

    def look_further(self, shard: Shard, share: BatchShare, placement: Placement = NOT_DESCRIBED) -> ShardPeek:
        """Where the last look's batch ends with a larger share of a limit that counts. Only if more waits there."""
        return self._counts[shard.shard_id].admit_more(share, self._connection.clock.now(), placement)

    def tip(self, shard: Shard, position: Begin, quiet_until: datetime | None = None) -> ShardPeek:
        """The last record that arrived before now. The page that shows it is empty, or its records arrived later."""
        self._note_quiet(shard.shard_id, position, quiet_until)
        if not shard.is_open:
            return ShardPeek(Ended())
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
        return ShardPeek(read_to(last))

    def _may_end(self, shard: Shard) -> bool:
        return not shard.is_open and not self._to_last_record

    def _search(self, shard_id: str, position: Begin) -> ShardPeek:
        remembered = self._at_tip.pop(shard_id, None)
        if remembered is not None and self._is_there(remembered, position):
            now = self._connection.clock.now()
            return self._nearest(now, shard_id, position, self._first(shard_id, position, remembered.pages)).peek()
        return self._near_tip(shard_id, position).peek()

    def _is_there(self, remembered: _AtTip, position: Begin) -> bool:
        """True if the remembered iterator can be used: an expired one would be reopened where it began, and walk
        again.
        """
        age = self._connection.clock.steady() - remembered.since
        return remembered.position == position and age < ITERATOR_IS_USED_FOR

    def _near_tip(self, shard_id: str, position: Begin) -> _Found:
        """A record beyond the position, as near to the tip as a look into the last second finds. An idle shard is
        walked once, from the time before which it is proved empty."""
        now = self._connection.clock.now()
        if now - LOOKBACK > _moment_of(position):
            at = ReadPosition(IteratorType.AT_TIMESTAMP, at=now - LOOKBACK)
            found = self._first(shard_id, position, self._pages(shard_id, at, BUSY_LIMIT), look_only=True)
            if found.record is not None or found.is_end:
                return found
        return self._nearest(now, shard_id, position, self._first_beyond(shard_id, position))

    def _nearest(self, now: datetime, shard_id: str, position: Begin, first: _Found) -> _Found:
        """Looks as near to the tip as possible. `first`: an early record beyond the position, if there is one."""
        if first.record is None or first.is_all:
            return first
        return self._back_from(now, shard_id, position, first.record)

    def _first_beyond(self, shard_id: str, position: Begin) -> _Found:
        """The last record of the first page with a record beyond the position."""
        return self._first(shard_id, position, self._pages(shard_id, self._opening(shard_id, position), BUSY_LIMIT))

    def _back_from(self, now: datetime, shard_id: str, position: Begin, first: StreamRecord) -> _Found:
        """Looks back from the tip in growing steps, each up to where the previous one began, but no further than a
        record known to exist. What the first look finds is near the tip; what later ones find, or that record, may be
        hours before it.
        """
        back, empty_from, limit = NEAR, now - LOOKBACK, POLL_LIMIT_MAX
        while now - back > first.approximate_arrival_timestamp and back < OLDEST:
            at = ReadPosition(IteratorType.AT_TIMESTAMP, at=now - back)
            pages = self._pages(shard_id, at, limit)
            found = self._first(shard_id, position, pages, look_only=True, until=empty_from)
            if found.is_end or found.is_all or found.is_near(empty_from):
                return found
            if found.record is not None:
                return self._between(shard_id, position, found.record, empty_from)
            if found.page is not None and found.page.records:  # new records are just after the position
                return self._page_from(shard_id, position, first)
            back, empty_from, limit = back * WIDEN, now - back, BUSY_LIMIT
        return self._between(shard_id, position, first, empty_from)

    def _between(self, shard_id: str, position: Begin, last: StreamRecord, empty_from: datetime) -> _Found:
        """Ends with a page from a record that is near the moment from which on nothing arrived. `last`: one beyond the
        position, mostly the last one; if records follow it, the time between is halved.
        """
        since = last.approximate_arrival_timestamp
        at = since + MILLISECOND
        while empty_from - since > NEAR:
            pages = self._pages_from_moment(shard_id, at)
            found = self._first(shard_id, position, pages, look_only=True, until=empty_from)
            if found.is_end:
                return found
            if found.page is not None and found.page.records:
                last = found.record or last
                since = max(at, last.approximate_arrival_timestamp)
            else:
                empty_from = at
            at = since + (empty_from - since) / 2
        return self._page_from(shard_id, position, last)

    def _page_from(self, shard_id: str, position: Begin, first: StreamRecord) -> _Found:
        at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, first.sequence_number)
        return self._first(shard_id, position, self._pages(shard_id, at, POLL_LIMIT_MAX))

    def _first(
        self,
        shard_id: str,
        position: Begin,
        pages: Iterator[Page],
        *,
        look_only: bool = False,
        until: datetime | None = None,
    ) -> _Found:
        """The last record of the first page with a record beyond the position; none if the tip comes first.

        look_only   the pages do not begin at the position, so they prove nothing about what is just behind it
        until       up to which time to look
        """
        page = None
        for walked, page in enumerate(pages, 1):
            if page.records and (look_only or is_beyond(page.records[-1], position)):
                break
            reached = None if page.records else reached_by(page)
            if not look_only:
                self._note_quiet(shard_id, position, reached)
            is_far_enough = until is not None and reached is not None and reached >= until
            if is_at_tip(page) or is_far_enough:
                if not look_only and not page.is_shard_end:
                    self._at_tip[shard_id] = _AtTip(position, pages, self._connection.clock.steady())
                return _Found(None, self._shown(page), self._quiet_until(shard_id, position), walked)
        last = page.records[-1] if page is not None and page.records else None
        return _Found(last if last is not None and is_beyond(last, position) else None, self._shown(page))

    def _shown(self, page: Page | None) -> Page | None:
        """The page as a search sees it, which takes a closed shard's end for its tip if it may not end there."""
        if page is None or not page.is_shard_end or not self._to_last_record:
            return page
        return page._replace(is_shard_end=False, millis_behind_latest=0)

    def _note_quiet(self, shard_id: str, position: Begin, until: datetime | None) -> None:
        known = self._quiet_until(shard_id, position)
        if until is not None and (known is None or until > known):
            self._quiet[shard_id] = (position, until)

    def _quiet_until(self, shard_id: str, position: Begin) -> datetime | None:
        """Returns the time only for exactly this position, since it says nothing about another one."""
        known = self._quiet.get(shard_id)
        return known[1] if known is not None and known[0] == position else None

    def _opening(self, shard_id: str, position: Begin) -> ReadPosition:
        return opening(position, self._quiet_until(shard_id, position))

    def _count(self, shard: Shard, position: Begin, share: BatchShare, placement: Placement) -> ShardPeek:
        """Continues the last count, if the batch begins where it ended."""
        shard_id = shard.shard_id
        count = self._counts.pop(shard_id, None)
        now = self._connection.clock.now()
        is_kept = count is not None and (count.tip_at is None or now - count.tip_at < ITERATOR_IS_USED_FOR)
        if count is None or not is_kept or not count.is_at(position):
            inside = keys_inside(shard.hash_key_range if self._filters else None)
            count = ShardCount(
                position,
                inside,
                lambda at, limit: read_pages(self._connection, shard_id, at, limit),
                self._quiet_until(shard_id, position),
                to_last_record=self._to_last_record,
            )
        peek = count.admit(share, now, placement)
        if peek.end is None:
            self._note_quiet(shard_id, position, peek.quiet_until)
        if not isinstance(peek.end, Ended) and not count.is_over:
            self._counts[shard_id] = count
        return peek

    def _span(self, shard: Shard, position: Begin, span: timedelta) -> ShardPeek | None:
        """The first record that arrived `span` after the position; None if everything unread is younger."""
        shard_id, now = shard.shard_id, self._connection.clock.now()
        begins_at = self._begins_at(shard_id, position)
        if begins_at is None or begins_at + span >= now:
            return None
        pages = self._pages_from_moment(shard_id, begins_at + span)
        page = next(pages)
        if not page.records and not is_at_tip(page):
            # Perhaps idle: then it is walked once, from the position to the first record or the tip.
            first = self._first_beyond(shard_id, position)
            if first.record is None:
                return None if self._may_end(shard) else first.peek()
            begins_at = first.record.approximate_arrival_timestamp
            if begins_at + span >= now:
                return None if self._may_end(shard) else self._nearest(now, shard_id, position, first).peek()
            pages = self._pages_from_moment(shard_id, begins_at + span)
            page = next(pages)
        found = self._first(shard_id, position, chain([page], pages), look_only=True)
        if found.record is None:
            return None
        return ShardPeek(
            read_to(found.record),
            lag=self._age(found.record),
            records=FIRST_OF_A_SPAN,
            record_bytes=found.record_bytes,
        )

    def _pages_from_moment(self, shard_id: str, moment: datetime) -> Iterator[Page]:
        return self._pages(shard_id, ReadPosition(IteratorType.AT_TIMESTAMP, at=moment), 1)

    def _begins_at(self, shard_id: str, position: Begin) -> datetime | None:
        """Returns when the position's record arrived, or else the first unread one; None if there is none. It is not
        before the time until which the shard is proved quiet.
        """
        arrived = position.arrived if isinstance(position, ReadTo) else position.at
        quiet_until = self._quiet_until(shard_id, position)
        known = max((at for at in (arrived, quiet_until) if at is not None), default=None)
        if known is not None:
            return known
        first = self._first_record(shard_id, open_at(position))
        return None if first is None else first.approximate_arrival_timestamp

    def holds(self, shard_id: str, record: ReadTo) -> bool:
        """True if the record still exists: then all that came after it does too."""
        first = first_record_at(self._connection, shard_id, record)
        return first is not None and int(first.sequence_number) == int(record.sequence_number)

    def holds_any(self, shard_id: str) -> bool:
        """True if any record of the shard still exists: then all of its children's do."""
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
    """A moment such that no record beyond the position arrived much earlier."""
    moment = position.arrived if isinstance(position, ReadTo) else position.at
    return moment or datetime.min.replace(tzinfo=UTC)
