"""Ends a process that is told to end while it still imports, before it holds anything.

The imports take a second or more, and then `runtimes.ending` takes the signals over. Without this, SIGTERM would end
the process by that signal; and in a container, whose first process gets no signal that it has no handler for, it would
be lost: the process would consume until it is killed, and leave its leases behind.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def end_early(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal calls it
    """Not by SystemExit: the import that it interrupts may catch that, or may have started threads that Python's exit
    waits for.
    """
    os._exit(0)


def end_at_sigterm() -> None:
    """Until `stop_at_signals`. A program that has a handler of its own keeps it."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end_early)
