"""What happens to the process meanwhile: Ctrl-C in the middle of a change, a fork, and the end of the program."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

WHY = (
    "records are pulled by the process that this one was forked from, and it goes on with them; "
    "make a Consumer in this process to pull here"
)
RECORD_STAYS = (
    "a Record belongs to the process that pulled it, which alone can acknowledge it; "
    "send its data, or its user_record, and acknowledge it here"
)
CONSUMER_STAYS = "a Consumer belongs to the process that made it; make one in the other process"

AFTER_POOLS = 10
"""The exit priority of a multiprocessing finalizer: that library ends its pools at 15 and joins other children after 0."""


class RepairOnEntry:
    """Wrapped around each change, inside the lock. If an exception interrupted a change, such as Ctrl-C's KeyboardInterrupt
    between any two instructions, the next one calls `repair` first.

    The lock itself must be one written in C, as threading's is: one whose enter and exit are Python code might stay locked for
    ever.
    """

    def __init__(self, repair: Callable[[], None]) -> None:
        self._repair = repair
        self._is_interrupted = False

    def __enter__(self) -> None:
        if self._is_interrupted:
            self._repair()
        self._is_interrupted = True

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        self._is_interrupted = kind is not None


class LockOfParent:
    """In a forked child, in place of the buffer's lock: a thread that the child does not have may hold that one."""

    def __enter__(self) -> NoReturn:
        raise RuntimeError(WHY)

    def __exit__(self, *_: object) -> None:
        """Never called."""


class AtExit:
    """Calls `call`, possibly twice, when this process ends: at Python's exit and, in a child of multiprocessing, which ends by
    os._exit, as one of that library's finalizers. It is not called after SIGKILL, os._exit or a signal without a handler.
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
        """It is not called any more."""
        atexit.unregister(self._call)
        if self._finalizer is not None:
            self._finalizer.cancel()
