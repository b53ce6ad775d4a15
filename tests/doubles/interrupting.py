"""Raises a KeyboardInterrupt within the pull API's own code, as a signal handler does: at the nth line that runs, or at
the end of the nth wait that began there (for a lock, which is then not acquired, or for another thread).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from linecache import getline
from pathlib import Path
from types import FrameType
from typing import Any

import sublet.decisions.pull.acknowledging
import sublet.pull.buffer
import sublet.testing.turn_taking

WHERE = {
    str(path)
    for path in (
        *Path(sublet.pull.buffer.__file__).parent.glob("*.py"),
        Path(sublet.decisions.pull.acknowledging.__file__),
    )
    if path.name != "record.py"  # there the caller has the record
}
WAITS = sublet.testing.turn_taking.TurnTaking.wait.__code__


class Interrupting:
    """`ran`: how many lines or waits have run. Only in this thread."""

    def __init__(self, at: int | None, *, waits: bool = False) -> None:
        self._at = at
        self._waits = waits
        self.ran = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if self._waits:
            return self._trace_waits(frame, event)
        if frame.f_code.co_filename not in WHERE:
            return None
        if event == "line" and not self._is_with(frame):
            self.ran += 1
            if self.ran == self._at:
                raise KeyboardInterrupt
        return self.trace

    def _trace_waits(self, frame: FrameType, event: str) -> Any:
        if event == "return" and frame.f_code is WAITS:
            self.ran += 1
            if self.ran == self._at:
                raise KeyboardInterrupt
        return self.trace if frame.f_code is WAITS else None

    def _is_with(self, frame: FrameType) -> bool:
        """At the exit of a with block: Python checks signals before and after it, so a C lock is never left locked."""
        return getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


@contextmanager
def interrupted(at: int | None, *, waits: bool = False) -> Iterator[Interrupting]:
    """Once, at the nth line or at the end of the nth wait; None: never, to count them."""
    interrupting, before = Interrupting(at, waits=waits), sys.gettrace()
    sys.settrace(interrupting.trace)
    try:
        yield interrupting
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
