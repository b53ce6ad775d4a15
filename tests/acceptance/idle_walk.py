"""Measures how many GetRecords calls an idle shard takes from an old position to its tip, which no emulator can show.

MillisBehindLatest is a distance in time. A shard that is opened at its last record of hours ago returns empty pages
that lag, each some time further on, until the tip.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

CALLS_A_SECOND = 4
"""A shard allows five in total."""
CALLS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Walk:
    """idle: time since the shard's last record, at the first call. reached_tip: False if it was given up after
    CALLS_MAX."""

    calls: int
    took: timedelta
    idle: timedelta
    first_lag: timedelta
    reached_tip: bool

    @property
    def calls_per_idle_hour(self) -> float:
        return self.calls / max(self.idle / timedelta(hours=1), 1 / 3600)

    def __str__(self) -> str:
        end = "to the tip" if self.reached_tip else "and not at the tip yet"
        return (
            f"{self.calls} calls {end}, {self.calls_per_idle_hour:.1f} per idle hour: idle {self.idle}, "
            f"first lag {self.first_lag}, walked in {self.took}"
        )


def walk(kinesis: Any, stream_arn: str, shard_id: str, last_number: str, idle: timedelta) -> Walk:
    """From the last record, with this sequence number, to the tip."""
    iterator = kinesis.get_shard_iterator(
        StreamARN=stream_arn,
        ShardId=shard_id,
        ShardIteratorType="AFTER_SEQUENCE_NUMBER",
        StartingSequenceNumber=last_number,
    )["ShardIterator"]
    began, calls, first_lag, lag = time.monotonic(), 0, timedelta(0), timedelta(0)
    while calls < CALLS_MAX:
        reply = kinesis.get_records(StreamARN=stream_arn, ShardIterator=iterator, Limit=1_000)
        calls += 1
        lag = timedelta(milliseconds=reply["MillisBehindLatest"])
        first_lag = lag if calls == 1 else first_lag
        if not lag:
            break
        iterator = reply["NextShardIterator"]
        time.sleep(1 / CALLS_A_SECOND)
    return Walk(calls, timedelta(seconds=round(time.monotonic() - began, 1)), idle, first_lag, not lag)
