"""How far an idle shard has been walked: what a page without records proves, and where the next reader opens the shard.

MillisBehindLatest says how far a page is from the tip in time, not that records wait. Opened at an old checkpoint, an idle shard
answers empty pages that lag, for as many calls as it takes to walk up to now. What they prove is kept in the lease's row, so that
no reader walks the same stretch twice: no record after this checkpoint arrived before this moment.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.decisions.read_position import IteratorType, ReadPosition, read_position
from sublet.protocol.lease import Lease, Position, Quiet
from sublet.protocol.lease_row import whole_milliseconds
from sublet.protocol.records import Page

ARRIVALS_DIFFER_BY = timedelta(minutes=2)
"""Kinesis promises neither that arrival times are accurate nor that they rise with sequence numbers (API, Record). A record that
is put after an empty page may bear an earlier moment than the page; not by this much."""

MILLISECOND = timedelta(milliseconds=1)


def reached_by(page: Page) -> datetime | None:
    """Up to which moment of the shard's time the page has come, by the service's clock. Nothing that follows it arrived before.

    None where the service does not tell the time: our own clock proves nothing, it may be ahead.
    """
    if page.answered_at is None:
        return None
    return page.answered_at - page.millis_behind_latest * MILLISECOND


class Walked(Struct, frozen=True):
    """How far a reader has come beyond the last record that it was given, or behind which it was opened.

    last_arrival   when that record arrived, at the latest; None before the first page
    until          nothing after that record arrived before; None where no page has proved anything yet
    """

    last_arrival: datetime | None = None
    until: datetime | None = None

    def after(self, page: Page) -> Walked:
        """Only an empty page proves anything: what is just behind the last record of another may be of the same moment.

        Where the first page is empty, all that is known of the record that it was opened behind is that it arrived before.
        """
        if page.records:
            return Walked(page.records[-1].approximate_arrival_timestamp)
        reached = reached_by(page)
        if reached is None or page.is_shard_end or (self.until is not None and reached <= self.until):
            return self
        return Walked(self.last_arrival or reached, reached)

    def quiet(self, read_to: Position) -> Quiet | None:
        """What is proved for a reader that begins at `read_to`, behind all that this one was given. None where that saves
        nothing: so soon after a record, its checkpoint is the nearer place to begin at.
        """
        if self.until is None or self.last_arrival is None:
            return None
        if self.until - ARRIVALS_DIFFER_BY <= self.last_arrival:
            return None
        return Quiet(whole_milliseconds(self.until), read_to)


NOTHING_WALKED = Walked()


def begun(position: ReadPosition | None) -> Walked:
    """Of a reader that opens there, before its first page."""
    return NOTHING_WALKED if position is None else Walked(position.at)


def opening(lease: Lease) -> ReadPosition | None:
    """Where to open the lease's shard, so that nothing is missed that `read_position` would bring, and no quiet stretch is walked
    again. What comes and is not beyond the checkpoint is to be dropped. None: it has ended.
    """
    position, until = read_position(lease), lease.quiet_until
    if position is None or until is None:
        return position
    return opened_at(until, position)


def opened_at(until: datetime, position: ReadPosition) -> ReadPosition:
    """Behind this position nothing arrived before that moment."""
    at = until - ARRIVALS_DIFFER_BY
    if position.at is not None and at <= position.at:
        return position
    return ReadPosition(IteratorType.AT_TIMESTAMP, position.sequence_number, at)
