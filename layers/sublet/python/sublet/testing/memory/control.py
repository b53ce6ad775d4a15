"""An operator's control, without a network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from sublet.errors import ControlUnreadable
from sublet.protocol.control import NO_CONTROL, Control


class MemoryControlStore:
    """The ControlStore port. Safe for threads."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        """`now`: the store's own clock."""
        self._now = now
        self._lock = threading.Lock()
        self._control = NO_CONTROL
        self._is_damaged = False

    def damage(self) -> None:
        """Makes every read raise ControlUnreadable from now on, until the control is replaced."""
        with self._lock:
            self._is_damaged = True

    def control(self) -> Control:
        with self._lock:
            if self._is_damaged:
                raise ControlUnreadable("the application's control is damaged")
            return self._control

    @property
    def answered_at(self) -> datetime | None:
        return None if self._now is None else self._now()

    def keep_control(self, control: Control) -> bool:
        with self._lock:
            if self._is_damaged or control.round != self._control.round:
                return False
            self._control = replace(control, round=control.round + 1)
            return True

    def replace_unreadable(self) -> None:
        with self._lock:
            if self._is_damaged:
                self._control, self._is_damaged = NO_CONTROL, False
