"""A plain loop over boto3's put_records: no order, no retries of single records, no aggregates."""

from __future__ import annotations

from typing import Any

import boto3

from benchmarks.producers.records import STREAM, Stopwatch, Task

AT_ONCE = 500


def plain(task: Task) -> None:
    client: Any = boto3.client("kinesis")
    entries = [{"Data": data, "PartitionKey": key} for key, data in task.records]
    client.put_records(StreamName=STREAM, Records=entries[:1])
    watch = Stopwatch()
    stored = 0
    for start in range(0, len(entries), AT_ONCE):
        reply = client.put_records(StreamName=STREAM, Records=entries[start : start + AT_ONCE])
        stored += len(reply["Records"]) - reply["FailedRecordCount"]
    watch.say(stored)


if __name__ == "__main__":
    plain(Task.from_command_line())
