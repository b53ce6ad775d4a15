"""A KeyboardInterrupt in the midst of the pull API's own code, as a signal handler raises it: at the nth line that runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from linecache import getline
from pathlib import Path
from types import FrameType
from typing import Any

import sublet.consumer.buffer
import sublet.decisions.acknowledging

WHERE = {
    str(path)
    for path in (
        *Path(sublet.consumer.buffer.__file__).parent.glob("*.py"),
        Path(sublet.decisions.acknowledging.__file__),
    )
    if path.name != "record.py"  # there whoever asked has the record
}


class Interrupting:
    """`ran`: so many lines have. Only of this thread."""

    def __init__(self, at: int | None) -> None:
        self._at = at
        self.ran = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in WHERE:
            return None
        if event == "line" and not self._is_with(frame):
            self.ran += 1
            if self.ran == self._at:
                raise KeyboardInterrupt
        return self.trace

    def _is_with(self, frame: FrameType) -> bool:
        """Where a block is left: Python looks for signals before that and after it, so that a lock of C is never left locked."""
        return getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


@contextmanager
def interrupted(at: int | None) -> Iterator[Interrupting]:
    """Once, at the nth line; None: never, to count them."""
    interrupting, before = Interrupting(at), sys.gettrace()
    sys.settrace(interrupting.trace)
    try:
        yield interrupting
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
