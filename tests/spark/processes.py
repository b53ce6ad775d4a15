"""The processes of one session: a query's program, its JVM, and Spark's Python workers, which make groups of their
own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def session_members(session: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    yield int(entry.name)


def python_workers(session: int) -> list[int]:
    """Spark's daemons and their forks: tasks, and the driver's side of the source."""
    found = []
    for pid in session_members(session):
        with suppress(OSError):
            if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return sorted(found)


def kill_session(session: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Kill the whole session, its leader and this process last."""
    members = sorted(session_members(session), key=lambda pid: (pid == os.getpid(), pid == session))
    for pid in members:
        with suppress(ProcessLookupError):
            os.kill(pid, how)
