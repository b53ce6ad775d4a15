"""A place in a shard, as Kinesis is asked for it, and what a page says of it."""

from __future__ import annotations

from sublet.decisions.read_position import IteratorType, ReadPosition
from sublet.protocol.records import Page, StreamRecord
from sublet.spark.plan.offsets import ReadTo, Unread
from sublet.spark.plan.planning import Begin


def open_at(position: Begin) -> ReadPosition:
    """A record read in part comes again."""
    match position:
        case ReadTo(sequence_number, sub_sequence_number=None):
            return ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, sequence_number)
        case ReadTo(sequence_number):
            return ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
        case Unread(None):
            return ReadPosition(IteratorType.TRIM_HORIZON)
        case Unread(at):
            return ReadPosition(IteratorType.AT_TIMESTAMP, at=at)


def is_beyond(record: StreamRecord, position: Begin) -> bool:
    return not isinstance(position, ReadTo) or position.is_before(record.sequence_number)


def is_at_tip(page: Page) -> bool:
    """A page with records and no lag is not yet the tip: records of the same millisecond may follow."""
    return page.is_shard_end or (not page.records and page.millis_behind_latest == 0)
