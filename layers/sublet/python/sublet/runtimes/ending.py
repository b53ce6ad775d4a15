"""Ending this process on purpose, and what is said of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from types import FrameType

from sublet.engine.lease_session import LeftBehind
from sublet.ports import Clock, Signal
from sublet.system.clock import SystemClock

SPENT = 70
"""The exit status of a process that can do no more where another could: EX_SOFTWARE, "an internal software error"."""

End = Callable[[int], object]


def end_process(status: int) -> None:
    """At once. Python's own way out waits for threads: for those that a call which hangs has started."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


SAME_SIGNAL = timedelta(seconds=1)
"""A signal so soon after the first one is the same: a terminal and a wrapper each pass on one Ctrl-C."""


def stop_at_signals(
    stop: Signal,
    left: Callable[[], Iterable[LeftBehind]] = tuple,
    end: End = end_process,
    clock: Clock | None = None,
) -> None:
    """Have SIGTERM and SIGINT set it, and the second of them end the process at once, saying which leases are `left`.

    Only in the main thread, as Python's signal handlers are.
    """
    steady, first = (clock or SystemClock()).steady, list[datetime]()

    def receive(number: int, _frame: FrameType | None) -> None:
        now = steady()
        first.append(now)
        if now - first[0] >= SAME_SIGNAL:
            _say(told_at_the_end(signal.Signals(number).name, left()))
            end(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, receive)


def told_at_the_end(name: str, left: Iterable[LeftBehind]) -> str:
    leases = [f"\n  {lease}" for lease in left]
    if not leases:
        return f"sublet: ended at once by a second signal, {name}; no lease was held\n"
    return (
        f"sublet: ended at once by a second signal, {name}; not given back, so that others go on after failover_time:"
        f"{''.join(leases)}\n"
    )


def _say(text: str) -> None:
    """Not by `print`: a signal may come in the middle of one, and the stream's buffer is not to be entered twice."""
    os.write(2, text.encode())
