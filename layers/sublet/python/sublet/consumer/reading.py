"""One stream record read by its number, of no consumer."""

from __future__ import annotations

from datetime import timedelta

from sublet.account import Account
from sublet.decisions.read_position import IteratorType, ReadPosition
from sublet.errors import StreamUnavailable
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import deaggregated
from sublet.protocol.records import UserRecord

READS = 20
"""Kinesis may answer with an empty page where there is a record."""

READS_AGAIN = timedelta(milliseconds=500)
USER_RECORDS_AT_ONCE = 4096


def user_records_at(account: Account, stream: str, shard_id: str, sequence_number: str) -> list[UserRecord]:
    """Opened there, Kinesis gives the next one if this one is past retention."""
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
