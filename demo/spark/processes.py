"""Finds a process' descendants, and whether all of them have ended, with `ps`, on Linux and macOS."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

LOOK = 0.1


def descendants(pid: int) -> frozenset[int]:
    """Every process below `pid`, whatever group or session it is in."""
    parent_of = {int(child): int(parent) for child, parent, _ in _processes()}
    found, generation = set[int](), {pid}
    while generation:
        generation = {child for child, parent in parent_of.items() if parent in generation} - found
        found |= generation
    return frozenset(found)


def end(pids: frozenset[int], within: float) -> None:
    """Wait up to this many seconds for them to end, then kill the rest."""
    deadline = time.monotonic() + within
    while (left := _alive(pids)) and time.monotonic() < deadline:
        time.sleep(LOOK)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _alive(pids: frozenset[int]) -> frozenset[int]:
    """Zombies do not count."""
    return pids & {int(pid) for pid, _, state in _processes() if not state.startswith("Z")}


def _processes() -> list[list[str]]:
    command = ["ps", "-eo", "pid=,ppid=,stat="]  # found on the PATH
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split() for line in listing.splitlines()]
