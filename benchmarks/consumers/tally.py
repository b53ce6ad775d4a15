"""What is measured of a consumer: what it used until the last record (`Tally`), how long each record took to it
(`Arrivals`, with `MEASURE=arrivals`), or when each came (`Notes`, with `MEASURE=notes`).
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

POLL_LIMIT = 10_000
POLL_INTERVAL_MILLIS = 200
"""Kinesis allows 5 polls a second on a shard; every consumer with a configurable pace is set to that."""


class Order(NamedTuple):
    """What to consume, from the command line. `expected` 0: run for ever."""

    stream: str
    application: str
    expected: int

    @classmethod
    def from_command_line(cls, arguments: Sequence[str] = sys.argv) -> Order:
        _, stream, application, expected = arguments
        return cls(stream, application, int(expected))

    @property
    def uncounted(self) -> int:
        """Records before the CPU seconds count: none, unless UNCOUNTED says otherwise."""
        return int(os.environ.get("UNCOUNTED", "0"))


class Before(NamedTuple):
    """What is not counted: the CPU seconds until then. `missing`: how many records were still to come, which are
    counted; None: not yet known.
    """

    cpu_seconds: float = 0.0
    missing: float | None = None


class Tally:
    """The last record prints a line of JSON (the time, CPU seconds, peak memory in bytes), and ends the process.

    `uncounted`: so many records come before the CPU seconds count, at least: without them, a start is measured too.
    """

    def __init__(self, expected: int, uncounted: int = 0) -> None:
        self._missing = expected or float("inf")
        self._counts_at = self._missing - uncounted
        self._before = Before() if uncounted else Before(0.0, self._missing)
        self._lock = threading.Lock()

    def add(self, number: int) -> None:
        """Thread-safe."""
        with self._lock:
            self._missing -= number
            if self._missing <= 0:
                _end(self._before)
            if self._before.missing is None and self._missing <= self._counts_at:
                self._before = Before(cpu_seconds(), self._missing)

    def add_one(self) -> None:
        """Not thread-safe: a lock per record would be a tenth of what is measured."""
        self._missing -= 1
        if self._missing <= 0:
            _end(self._before)


class Arrivals:
    """Thread-safe. The last record prints a line of JSON (for each record, when it was put and how many seconds it
    took), and ends the process.
    """

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self._found: list[tuple[float, float]] = []
        self._lock = threading.Lock()

    def add(self, datas: Iterable[bytes]) -> None:
        now = time.time()
        with self._lock:
            self._found += [(put, now - put) for put in map(float, datas)]
            if len(self._found) >= self._missing:
                print(json.dumps(self._found), flush=True)
                os._exit(0)


def stamped() -> bytes:
    """The data of a record for `Arrivals`: the current time."""
    return repr(time.time()).encode()


NOTES = "NOTES"
"""The environment variable that names the file of `Notes`, which several processes write."""


class Notes:
    """Safe for threads and signals: a line per record, with the time and the record's data, in one appending write."""

    def __init__(self) -> None:
        self._file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, datas: Iterable[bytes]) -> None:
        lines = "".join(f"{time.time()!r} {data.decode()}\n" for data in datas)
        os.write(self._file, lines.encode())


def told(order: Order, data_of: Callable[[Any], bytes] = attrgetter("data")) -> Callable[[Sequence[Any]], None]:
    """What a consumer tells of the records that it has got."""
    match os.environ.get("MEASURE"):
        case None:
            tally = Tally(order.expected, order.uncounted)
            return lambda records: tally.add(len(records))
        case "arrivals":
            arrivals = Arrivals(order.expected)
            return lambda records: arrivals.add(map(data_of, records))
        case "notes":
            notes = Notes()
            return lambda records: notes.add(map(data_of, records))
        case other:
            raise ValueError(f"MEASURE={other}")


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _end(before: Before) -> None:
    found = {
        "last_at": time.time(),
        "cpu_seconds": cpu_seconds() - before.cpu_seconds,
        "peak_bytes": _peak_bytes(resource.getrusage(resource.RUSAGE_SELF)),
        "counted": before.missing,
    }
    print(json.dumps(found), flush=True)
    os._exit(0)


def _peak_bytes(used: resource.struct_rusage) -> int:
    """Linux' ru_maxrss includes the parent's memory when it started us; VmHWM is this program's own."""
    status = Path("/proc/self/status")
    if not status.exists():
        return used.ru_maxrss if sys.platform == "darwin" else used.ru_maxrss * 1024
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024
