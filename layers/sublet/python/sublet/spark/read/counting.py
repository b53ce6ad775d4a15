"""Counts on the driver how much of a shard a limit by rows or bytes admits, each stream record once.

Remembers records read beyond a batch's end for the next batch, without their data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil

from sublet.decisions.session.quiet import reached_by
from sublet.decisions.session.read_position import ReadPosition
from sublet.protocol.aggregation import AggregateColumns, OutOfRange, WholeReason, aggregate_columns
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.kpl_format import read_aggregate
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.stream_info import Placement
from sublet.settings import POLL_LIMIT_MAX
from sublet.spark.plan.offsets import Ended, ReadTo
from sublet.spark.plan.planning import Begin, ShardPeek
from sublet.spark.plan.strays import is_sent_again
from sublet.spark.read.pages import Limit
from sublet.spark.read.positions import is_at_tip, is_beyond, opening

_SECOND = timedelta(seconds=1)

BYTES_A_RECORD = 1024
"""The size of a record that is assumed until some records are known."""

PagesFrom = Callable[[ReadPosition, Limit], Iterator[Page]]


@dataclass(frozen=True, slots=True)
class BatchShare:
    """A shard's part of one batch's limits. None: no limit of the kind."""

    records: int | None = None
    bytes: int | None = None
    span: timedelta | None = None

    @property
    def counts(self) -> bool:
        return self.records is not None or self.bytes is not None

    def used_by(self, peek: ShardPeek) -> int:
        """How much of a limit that counts the look has admitted."""
        return (peek.rows if self.records is not None else peek.bytes) or 0

    def and_more(self, peek: ShardPeek, more: int) -> BatchShare:
        """A limit of the same kind, of what the look has admitted and so much more."""
        total = self.used_by(peek) + more
        return BatchShare(records=total) if self.records is not None else BatchShare(bytes=total)


NO_LIMIT = BatchShare()


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of some stream records. `rows`: their user records."""

    records: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: _Size) -> _Size:
        return _Size(self.records + other.records, self.rows + other.rows, self.bytes + other.bytes)

    @property
    def record_bytes(self) -> int | None:
        return max(1, self.bytes // self.records) if self.records else None

    def left_of(self, share: BatchShare, seen: _Size) -> int:
        """How many more records the share may admit, if they are like those seen on the shard; at least 1."""
        left = [POLL_LIMIT_MAX]
        if share.records is not None:
            left.append(ceil((share.records - self.rows) / max(seen.rows / max(seen.records, 1), 1)))
        if share.bytes is not None:
            each = seen.bytes / seen.records if seen.records else BYTES_A_RECORD
            left.append(ceil((share.bytes - self.bytes) / max(each, 1)) + 1)  # and one too many
        return max(min(left), 1)

    def of(self, share: BatchShare) -> int:
        """In the share's unit."""
        return self.rows if share.records is not None else self.bytes

    def is_over(self, share: BatchShare) -> bool:
        return self.rows > (share.records or self.rows) or self.bytes > (share.bytes or self.bytes)

    def uses_up(self, share: BatchShare) -> bool:
        return share.records == self.rows or share.bytes == self.bytes


@dataclass(frozen=True, slots=True)
class _Counted:
    """One stream record. `is_stray`: it is outside the shard's hash key range, so each batch checks whether to drop
    it.
    """

    at: ReadTo
    size: _Size
    is_stray: bool

    def delivered(self, placement: Placement) -> _Size:
        is_dropped = self.is_stray and is_sent_again(self.at.arrived, placement)
        return replace(self.size, rows=0) if is_dropped else self.size


@dataclass(frozen=True, slots=True)
class _LastPage:
    """A page that is followed by others: its size, and about how many pages like it are left up to the tip."""

    size: _Size
    times_behind: float

    @classmethod
    def of(cls, page: Page, limit: int, counted: Sequence[_Counted]) -> _LastPage | None:
        """`counted`: the page's records, if any. A full page may be followed by more of the same millisecond."""
        is_full = len(page.records) >= limit
        behind = timedelta(milliseconds=page.millis_behind_latest)
        if page.is_shard_end or not counted or not (is_full or behind):
            return None
        first, last = page.records[0], page.records[-1]
        span = max(last.approximate_arrival_timestamp - first.approximate_arrival_timestamp, _SECOND)
        return cls(sum((each.size for each in counted), _Size()), max(behind / span, 1.0 if is_full else 0.0))


@dataclass(slots=True)
class ShardCount:
    """One shard's count, from `position` on, where the next batch begins if it continues the last one.

    inside          the shard's hash key range, as the batches' tasks have it
    quiet_until     nothing beyond the position arrived before this time
    tip_at          when nothing was last seen to follow; None: something follows
    to_last_record  no batch ends with the closed shard, only at a record of it
    """

    position: Begin
    inside: KeysInside | None
    pages_from: PagesFrom
    quiet_until: datetime | None = None
    tip_at: datetime | None = None
    to_last_record: bool = False
    _walked: int = 0
    _pages: Iterator[Page] = field(init=False)
    _ahead: deque[_Counted] = field(default_factory=deque)
    _is_ended: bool = False
    _seen: _Size = _Size()
    _limit: int = 1
    _size: _Size = _Size()
    """What the batch has so far, up to `_last`."""
    _last: ReadTo | None = None
    _page: _LastPage | None = None
    """None: nothing follows the last page."""

    def __post_init__(self) -> None:
        self._pages = self.pages_from(opening(self.position, self.quiet_until), lambda: self._limit)

    def is_at(self, position: Begin) -> bool:
        """True if the count continues from there. Times are rounded in Spark's log."""
        if isinstance(position, ReadTo) and isinstance(self.position, ReadTo):
            same_part = position.sub_sequence_number == self.position.sub_sequence_number
            return same_part and position.sequence_number == self.position.sequence_number
        return position == self.position

    @property
    def is_over(self) -> bool:
        """True if a batch has found nothing, and no later one will."""
        return self._is_ended and self._last is None

    def admit(self, share: BatchShare, now: datetime, placement: Placement) -> ShardPeek:
        """Where a batch with this share ends. At least one stream record is admitted."""
        self._size, self._last = _Size(), None
        self._walked, self.tip_at = 0, None
        return self.admit_more(share, now, placement)

    def admit_more(self, share: BatchShare, now: datetime, placement: Placement) -> ShardPeek:
        """Where the same batch ends with a larger share."""
        while self._has_next(share):
            at, one = self._ahead[0].at, self._ahead[0].delivered(placement)
            if self._last is not None and (self._size + one).is_over(share):
                return self._up_to(self._last, share, now)
            self._ahead.popleft()
            self._size, self._last = self._size + one, at
            if self._size.uses_up(share):
                return self._up_to(self._last, share, now)
        if self._is_ended and not self.to_last_record:
            return self._found(Ended())
        if self._last is not None:
            return self._up_to(self._last, share)
        self.tip_at = now
        return replace(self._found(None), caught_up=True, quiet_until=self.quiet_until, walked=self._walked)

    def _up_to(self, last: ReadTo, share: BatchShare, now: datetime | None = None) -> ShardPeek:
        """`now`: given if more records may follow."""
        self.position, self.quiet_until = last, None
        lag = timedelta(0) if now is None or last.arrived is None else max(now - last.arrived, timedelta(0))
        return replace(self._found(last), lag=lag, waiting=0 if now is None else self._waiting(share))

    def _found(self, end: ReadTo | Ended | None) -> ShardPeek:
        size = self._size
        return ShardPeek(
            end,
            records=None if end is None else size.records,
            rows=size.rows,
            bytes=size.bytes,
            record_bytes=size.record_bytes,
        )

    def _waiting(self, share: BatchShare) -> int:
        """What is counted ahead, and beyond that, as much for each second up to the tip as the last page has for its
        own.
        """
        ahead = sum(each.size.of(share) for each in self._ahead)
        page = self._page
        return ahead if page is None else ahead + ceil(page.size.of(share) * page.times_behind)

    def _has_next(self, share: BatchShare) -> bool:
        """False at the shard's tip and end."""
        while not self._ahead and not self._is_ended:
            self._limit = self._size.left_of(share, self._seen)
            page = next(self._pages)
            self._walked += 1
            if not page.records:
                self.quiet_until = reached_by(page) or self.quiet_until
            for record in page.records:
                if is_beyond(record, self.position):
                    self._look_at(record)
            self._is_ended = page.is_shard_end
            self._page = _LastPage.of(page, self._limit, self._ahead)
            if is_at_tip(page):
                break
        return bool(self._ahead)

    def _look_at(self, record: StreamRecord) -> None:
        found, is_stray = aggregate_columns(record.data, self.inside), False
        match found:
            case OutOfRange(rows):
                is_stray = True
            case AggregateColumns():
                rows = len(found.data)
            case _:
                rows = 1
        one = _Size(1, rows, len(record.data))
        at = read_to(record, None if found is WholeReason.DAMAGED else rows)
        self._ahead.append(_Counted(at, one, is_stray))
        self._seen += one


def read_to(record: StreamRecord, rows: int | None = None) -> ReadTo:
    """The position after the record. `rows`: the number of its user records if they have been counted, including
    those that are not delivered."""
    if rows is None:
        contents = read_aggregate(record.data)
        rows = 1 if contents is None else len(contents.data)
    return ReadTo(
        record.sequence_number,
        record.approximate_arrival_timestamp,
        last_sub_sequence_number=max(rows - 1, 0),
    )
