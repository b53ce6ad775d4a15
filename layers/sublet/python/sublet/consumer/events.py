"""Tells what happens to whoever listens, in a task of its own: no thread of the engine waits for a program's code."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from threading import get_ident

from sublet.decisions.pull_events import Event, EventKind
from sublet.engine.exception_fields import exception_fields
from sublet.ports import Log, Signal, Tasks
from sublet.settings import LogExceptions

Listener = Callable[[Event], object]

MOST = 1000
"""Events that wait for a listener that is slow. What is beyond that is left out, and an event says how many."""

PATIENCE = timedelta(seconds=1)
"""Whoever ends something waits so long for its events to be told."""


class Events:
    """One membership's. Safe for threads. `listeners` is empty once the membership is over and all is told: a record that the
    program keeps then leads to nothing of the program's.
    """

    def __init__(self, tasks: Tasks, listener: Listener) -> None:
        self._tasks = tasks
        self._listeners: list[Listener] = [listener]
        self._lock = tasks.lock()
        self._waiting: deque[Event] = deque()
        self._left_out = 0
        self._is_telling = False
        self._teller: int | None = None
        self._told: list[Signal] = []
        """Set when nothing waits."""
        self._is_over = False
        self.log: Log | None = None
        self.log_exceptions = LogExceptions.FULL

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """It is told nothing any more, but for what it is told just now."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def tell(self, event: Event) -> None:
        """Returns at once."""
        with self._lock:
            if not self._listeners:
                return
            if len(self._waiting) == MOST:
                self._left_out += 1
                return
            self._waiting.append(event)
            if not self._is_telling:
                with suppress(RuntimeError):  # no more threads: it is told with the next one, perhaps
                    self._tasks.spawn(self._tell)
                    self._is_telling = True

    def wait(self) -> None:
        """Until all is told, but not for long, and not where a listener itself waits."""
        with self._lock:
            if not self._is_telling or self._teller == get_ident():
                return
            told = self._tasks.signal()
            self._told.append(told)
        told.wait(PATIENCE)

    def finish(self) -> None:
        """The membership is over: what waits is still told."""
        with self._lock:
            self._is_over = True
            if not self._is_telling:
                self._listeners.clear()

    def _tell(self) -> None:
        self._teller = get_ident()
        while (event := self._next()) is not None:
            for listener in list(self._listeners):
                self._tell_one(listener, event)

    def _next(self) -> Event | None:
        """In their order. None: nothing waits, and whoever tells is done."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._left_out:
                left_out, self._left_out = self._left_out, 0
                return Event(
                    EventKind.SLOW_LISTENER, detail=f"{left_out} events were left out while on_event was busy"
                )
            self._is_telling, self._teller = False, None
            if self._is_over:
                self._listeners.clear()
            for told in self._told:
                told.set()
            self._told.clear()
            return None

    def _tell_one(self, listener: Listener, event: Event) -> None:
        try:
            listener(event)
        except BaseException as failure:  # noqa: BLE001 - whatever the program's code raises: the next one is told
            if self.log is not None:
                fields = exception_fields(failure, self.log_exceptions)
                self.log.error("on_event failed", event=event.kind, **fields)
