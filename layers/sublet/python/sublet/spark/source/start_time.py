"""Sees to it that a query starts at a time that Kinesis' clock has reached. It opens a shard at a later time as at
LATEST: a batch would end at a record from before its start, which its task never meets.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sublet.errors import SettingsError
from sublet.settings import StartPosition
from sublet.spark.read.connection import StreamAccess


def time_at_start(access: StreamAccess, start: StartPosition) -> datetime:
    """Returns the time by Kinesis' clock, which is not before the start position's. One that is ahead by no more than
    `patience` is waited for: the clock that it was taken from may be ahead. Raises SettingsError if it is later.
    """
    while True:
        now = access.stream.service_time()
        ahead = timedelta(0) if start.at is None else start.at - now
        if ahead <= timedelta(0):
            return now
        if ahead > access.patience:
            raise SettingsError(
                "startPosition",
                str(start),
                f"a time in the past (it is {now.isoformat(timespec='seconds')}); for records from now on, a streaming "
                "query with LATEST",
            )
        access.sleep(ahead)
