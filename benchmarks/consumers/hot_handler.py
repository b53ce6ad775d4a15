"""A slow handler, which sleeps 150 ms a call and 20 ms a record. It writes to a file when it got which records."""

from __future__ import annotations

import os
import time
from functools import cache

from sublet import Batch

FILE = "HOT_FILE"
"""In the environment: the file, with a line per call: when it ended, the process, the shard, how many bytes, and how
long its oldest record had waited by then, in seconds. A record's data begins with the moment of its put.
"""

PER_CALL, PER_RECORD = 0.15, 0.02


def handle(batch: Batch) -> None:
    records = list(batch.records)
    time.sleep(PER_CALL + PER_RECORD * len(records))
    now = time.time()
    oldest = min(float(record.data.split(b" ", 1)[0]) for record in records)
    size = sum(len(record.data) for record in records)
    os.write(_file(), f"{now:.3f} {os.getpid()} {batch.shard_id} {size} {now - oldest:.3f}\n".encode())


@cache
def _file() -> int:
    return os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
