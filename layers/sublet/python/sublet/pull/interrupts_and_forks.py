"""Keeps a buffer sound when Ctrl-C interrupts a change, and when the process is forked."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

WHY = (
    "the process that this one was forked from pulls the records, and continues to; "
    "make a Consumer in this process to pull here"
)
RECORD_STAYS = (
    "only the process that pulled a Record can acknowledge it; "
    "send its data, or its user_record, to the other process, and acknowledge it here"
)
CONSUMER_STAYS = "a Consumer belongs to the process that made it; make one in the other process"


class RepairOnEntry:
    """A context manager around each change, inside the lock. If an exception interrupted the last change (Ctrl-C raises
    KeyboardInterrupt between any two instructions), the next one calls `repair` first.

    The lock itself must be written in C, as threading's is. One whose enter and exit are Python code might stay locked
    for ever.
    """

    def __init__(self, repair: Callable[[], None]) -> None:
        self._repair = repair
        self._is_interrupted = False

    def __enter__(self) -> None:
        if self._is_interrupted:
            self._repair()
        self._is_interrupted = True

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._is_interrupted = kind is not None


class LockOfParent:
    """Replaces the buffer's lock in a forked child, because a thread that the child does not have may hold that
    lock.
    """

    def __enter__(self) -> NoReturn:
        raise RuntimeError(WHY)

    def __exit__(self, *_: object) -> None:
        """Never runs, because `__enter__` raises."""
