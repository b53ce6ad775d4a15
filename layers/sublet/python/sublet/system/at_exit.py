"""Calls a function when this process ends."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Any

AFTER_POOLS = 10
"""The exit priority of a multiprocessing finalizer: that library ends its pools at 15 and joins other children after
0.
"""


class AtExit:
    """Calls `call`, possibly twice, when this process ends: at Python's exit and, in a child of multiprocessing, which
    ends by os._exit, as one of that library's finalizers. It is not called after SIGKILL, os._exit or a signal without
    a handler.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._finalizer: Any = None
        atexit.register(call)
        processes: Any = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:
            from multiprocessing.util import Finalize  # noqa: PLC0415 - only a child of multiprocessing has it loaded

            self._finalizer = Finalize(None, call, exitpriority=AFTER_POOLS)

    def forget(self) -> None:
        """From now on `call` is not called."""
        atexit.unregister(self._call)
        if self._finalizer is not None:
            self._finalizer.cancel()
