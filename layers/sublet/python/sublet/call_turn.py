"""Which call is to blame if calls of the handler share a thread, as coroutines share the event loop's.

A call that blocks the thread holds up the others, those that have begun and those that still wait. If all of them take
too long, only the blocking call has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import Lock


def _not_held_up() -> bool:
    return False


class CallTurn:
    """One call's turn. The caller may give the call up, and the thread that makes it says when it begins."""

    __slots__ = ("_is_given_up", "_is_held_up", "_lock", "_waits")

    def __init__(self) -> None:
        self._lock = Lock()
        """Guards all fields below: a call that was given up never begins."""
        self._waits = self._is_given_up = False
        self._is_held_up: Callable[[], bool] = _not_held_up

    def wait(self, is_held_up: Callable[[], bool]) -> None:
        """The call waits for its turn from now on. `is_held_up`: whether, once begun, it is blocked by another call."""
        with self._lock:
            self._waits, self._is_held_up = True, is_held_up

    def begin(self) -> bool:
        """Begin the call. Returns False if it was given up: then it must not begin."""
        with self._lock:
            self._waits = self._waits and self._is_given_up
            return not self._is_given_up

    def give_up(self) -> bool:
        """Give the call up: if it has not begun, it never will. Returns whether another call is to blame; finding out
        may take a moment.
        """
        with self._lock:
            self._is_given_up = True
            waits = self._waits
        return waits or self._is_held_up()


TURN: ContextVar[CallTurn | None] = ContextVar("sublet_turn", default=None)
"""The turn of the call that this thread makes."""
