"""Whose turn it is, where calls of the handler share a thread: as coroutines share the event loop's.

One that blocks the thread holds up the others, those that have begun and those that still wait for their turn. When all of them
have taken too long, only that one has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import Lock


def _not_held_up() -> bool:
    return False


class Turn:
    """Of one call. Who makes the call gives it up; who runs it elsewhere than in the caller's thread says so."""

    __slots__ = ("_is_given_up", "_is_held_up", "_lock", "_waits")

    def __init__(self) -> None:
        self._lock = Lock()
        self._waits = self._is_given_up = False
        self._is_held_up: Callable[[], bool] = _not_held_up

    def wait(self, is_held_up: Callable[[], bool]) -> None:
        """It waits for its turn from now on. `is_held_up` tells, once it has begun, whether another keeps it from going on."""
        with self._lock:
            self._waits, self._is_held_up = True, is_held_up

    def begin(self) -> bool:
        """Whether it may still begin."""
        with self._lock:
            self._waits = self._waits and self._is_given_up
            return not self._is_given_up

    def give_up(self) -> bool:
        """What has not begun never will. Whether another is to blame; asking may take a moment."""
        with self._lock:
            self._is_given_up = True
            waits = self._waits
        return waits or self._is_held_up()


TURN: ContextVar[Turn | None] = ContextVar("sublet_turn", default=None)
"""Of the call that is made in this thread."""
