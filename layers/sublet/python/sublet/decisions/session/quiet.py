"""How far an idle shard has been walked: what an empty page proves, and where the next reader opens the shard.

MillisBehindLatest says how far a page is from the tip in time, not that records wait. Opened at an old checkpoint, an
idle shard returns empty pages that lag, for as many calls as it takes to walk up to now. Their proof is kept in the
lease's row, so that no reader walks the same stretch twice: no record after this checkpoint arrived before this moment.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.decisions.session.read_position import IteratorType, ReadPosition, read_position
from sublet.protocol.lease import Lease, Position, QuietUntil
from sublet.protocol.lease_attributes import whole_milliseconds
from sublet.protocol.records import Page

ARRIVALS_DIFFER_BY = timedelta(minutes=2)
"""Kinesis promises neither that arrival times are accurate nor that they rise with sequence numbers (API, Record). A
record that is put after an empty page may have an earlier arrival time than the page, but not by this much.
"""

MILLISECOND = timedelta(milliseconds=1)


def reached_by(page: Page) -> datetime | None:
    """How far the page has come in the shard's time, by the service's clock: no later record arrived before.

    None if the service did not send its time: our own clock proves nothing, since it may be ahead.
    """
    if page.answered_at is None:
        return None
    return page.answered_at - page.millis_behind_latest * MILLISECOND


class WalkedUntil(Struct, frozen=True):
    """How far a reader has come beyond its last record, or beyond the record after which it was opened.

    last_arrival  the latest moment at which that record may have arrived; None before the first page
    until         no later record arrived before this; None if no page has proved anything yet
    """

    last_arrival: datetime | None = None
    until: datetime | None = None

    def after(self, page: Page) -> WalkedUntil:
        """Adds what a page proves. Only an empty one proves anything: a record just after the last record of a page may
        have the same arrival time.

        If the first page is empty, it is only known that the record after which the reader was opened arrived before
        that.
        """
        if page.records:
            return WalkedUntil(page.records[-1].approximate_arrival_timestamp)
        reached = reached_by(page)
        if reached is None or page.is_shard_end or (self.until is not None and reached <= self.until):
            return self
        return WalkedUntil(self.last_arrival or reached, reached)

    def quiet(self, read_to: Position) -> QuietUntil | None:
        """What is proved for a reader that begins at `read_to`, after all records that this one has read. None if the
        proof saves nothing: soon after a record, its checkpoint is the better place to begin.
        """
        if self.until is None or self.last_arrival is None:
            return None
        if self.until - ARRIVALS_DIFFER_BY <= self.last_arrival:
            return None
        return QuietUntil(whole_milliseconds(self.until), read_to)


NOTHING_WALKED = WalkedUntil()


def begun(position: ReadPosition | None) -> WalkedUntil:
    """Returns the state of a reader that opens there, before its first page."""
    return NOTHING_WALKED if position is None else WalkedUntil(position.at)


def opening(lease: Lease) -> ReadPosition | None:
    """Where to open the lease's shard, so that it misses nothing that `read_position` would bring and walks no quiet
    stretch again. The caller drops records at or before the checkpoint. None: the shard has ended.
    """
    position, until = read_position(lease), lease.quiet_until
    if position is None or until is None:
        return position
    return opened_at(until, position)


def opened_at(until: datetime, position: ReadPosition) -> ReadPosition:
    """The later of `position` and the moment `until`, before which nothing after `position` arrived."""
    at = until - ARRIVALS_DIFFER_BY
    if position.at is not None and at <= position.at:
        return position
    return ReadPosition(IteratorType.AT_TIMESTAMP, position.sequence_number, at)
