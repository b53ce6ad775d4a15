"""Changes that a signal handler's exception cuts in two, such as Ctrl-C's KeyboardInterrupt between any two instructions."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Whole:
    """Around each change, inside of the lock: whoever comes after one that was left halfway mends it first.

    The lock itself has to be one of C, as threading's: entered and left in Python, it might stay locked for ever.
    """

    def __init__(self, mend: Callable[[], None]) -> None:
        self._mend = mend
        self._is_torn = False

    def __enter__(self) -> None:
        if self._is_torn:
            self._mend()
        self._is_torn = True

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        self._is_torn = kind is not None
