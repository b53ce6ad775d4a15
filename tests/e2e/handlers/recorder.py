"""A handler for tests: records what it gets, and fails, is slow or reports failures as the test asks.

Everything goes through files in one directory, because the Lambdas of the embedded AWS are processes on this machine:
`<pid>.jsonl` holds a line for each record handled, `delay` the seconds that each call takes, `fail-<n>` a failure to
come. No call ends while there is a `hold`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from sublet import Batch

DIRECTORY = Path(os.environ["RECORDER_DIRECTORY"])


def handle(batch: Batch) -> None:
    for failure in sorted(DIRECTORY.glob("fail-*")):
        failure.unlink(missing_ok=True)
        raise RuntimeError(f"asked to fail: {failure.name}")
    delay = float((DIRECTORY / "delay").read_text())  # before the test can see that this call has begun
    with (DIRECTORY / f"{os.getpid()}.jsonl").open("a") as lines:
        for record in batch.records:
            place = [batch.shard_id, record.sequence_number, record.sub_sequence_number, record.partition_key]
            lines.write(json.dumps([time.time_ns(), *place, record.data.decode()]) + "\n")
    time.sleep(delay)
    while (DIRECTORY / "hold").exists():
        time.sleep(0.05)


def shard_ended(shard_id: str) -> None:
    (DIRECTORY / f"ended-{shard_id}").touch()
