"""The records that every producer puts."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

KEYS = 1_000
STREAM = "orders"
REGION = "us-east-1"


class Task(NamedTuple):
    url: str
    records: list[tuple[str, bytes]]
    on_loop: bool

    @classmethod
    def from_command_line(cls, arguments: Sequence[str] = sys.argv) -> Task:
        _, url, count, size, kind = arguments
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
        os.environ.update(keys, AWS_ENDPOINT_URL=url, AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true")
        records = [(f"customer-{n % KEYS}", b"%d:" % n + bytes(int(size) - 8)) for n in range(int(count))]
        return cls(url, records, kind == "loop")


class Stopwatch:
    """CPU time of this process, and the time that passes."""

    def __init__(self) -> None:
        self._cpu, self._began = time.process_time(), time.monotonic()

    def say(self, stored: int) -> None:
        cpu, seconds = time.process_time() - self._cpu, time.monotonic() - self._began
        print(json.dumps({"cpu_seconds": cpu, "seconds": seconds, "stored": stored}), flush=True)
