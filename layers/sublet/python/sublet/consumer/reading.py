"""One stream record read by its number, of no consumer."""

from __future__ import annotations

from datetime import timedelta

from sublet.account import Account
from sublet.decisions.read_position import IteratorType, ReadPosition
from sublet.errors import StreamError, StreamUnavailable
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import deaggregated
from sublet.protocol.records import UserRecord

READS = 20
"""Kinesis may answer with an empty page where there is a record."""

READS_AGAIN = timedelta(milliseconds=500)
USER_RECORDS_AT_ONCE = 4096


def user_records_at(account: Account, stream: str, shard_id: str, sequence_number: str) -> list[UserRecord]:
    """Opened there, Kinesis gives the next one if this one is past retention."""
    _check(stream, shard_id, sequence_number)
    at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
    reader = account.reading(stream).reader(shard_id, at)
    for _ in range(READS):
        page = reader.read(1)
        if isinstance(page, PollRefusal):
            account.tasks.signal().wait(READS_AGAIN)
        elif page.records or page.is_shard_end or not page.millis_behind_latest:
            found = tuple(one for one in page.records if one.sequence_number == sequence_number)
            parts = deaggregated(found, None, USER_RECORDS_AT_ONCE)
            return [record for part in parts for record in part.user_records]
    raise StreamUnavailable(f"shard {shard_id} of {stream} did not answer {READS} reads; try again")


def _check(stream: str, shard_id: object, sequence_number: object) -> None:
    """Raises StreamError for what names no record, before Kinesis refuses it in words of its own."""
    if not isinstance(shard_id, str) or not shard_id:
        raise StreamError(f"{stream} has no shard {shard_id!r:.300}: name one as record.shard_id does")
    if not (isinstance(sequence_number, str) and sequence_number.isascii() and sequence_number.isdecimal()):
        raise StreamError(
            f"{stream} has no record {sequence_number!r:.300}: give its number as text, as record.sequence_number is"
        )
