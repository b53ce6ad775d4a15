"""Converts positions to those that Kinesis opens a shard at, and says whether a page is at the tip."""

from __future__ import annotations

from datetime import datetime

from sublet.decisions.session.quiet import ARRIVALS_DIFFER_BY, opened_at
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.protocol.records import Page, StreamRecord
from sublet.spark.plan.offsets import ReadTo, Unread
from sublet.spark.plan.planning import Begin


def open_at(position: Begin) -> ReadPosition:
    """Where to open the shard for a position. A record that was read in part comes again as a whole."""
    match position:
        case ReadTo(sequence_number, sub_sequence_number=None):
            return ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, sequence_number)
        case ReadTo(sequence_number):
            return ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
        case Unread(None):
            return ReadPosition(IteratorType.TRIM_HORIZON)
        case Unread(at):
            return ReadPosition(IteratorType.AT_TIMESTAMP, at=at)


def opening(position: Begin, quiet_until: datetime | None) -> ReadPosition:
    """Like `open_at`, but a quiet stretch is not walked again. Records that are not beyond the position must be
    dropped.

    quiet_until   nothing beyond the position arrived before this time
    """
    at = open_at(position)
    if quiet_until is None or (isinstance(position, ReadTo) and _is_nearer(position, quiet_until)):
        return at
    return opened_at(quiet_until, at)


def _is_nearer(position: ReadTo, quiet_until: datetime) -> bool:
    """True if the position is nearer to the tip than the time, or is a partly read record, whose rest the time does not
    cover.
    """
    if position.sub_sequence_number is not None or position.arrived is None:
        return position.sub_sequence_number is not None
    return quiet_until - ARRIVALS_DIFFER_BY <= position.arrived


def is_beyond(record: StreamRecord, position: Begin) -> bool:
    return not isinstance(position, ReadTo) or position.is_before(record.sequence_number)


def is_at_tip(page: Page) -> bool:
    """True for an empty page without lag. After a page with records, more of the same millisecond may follow."""
    return page.is_shard_end or (not page.records and page.millis_behind_latest == 0)
