"""Calls a program's `on_event` in a separate task, so that no thread of the engine waits for the program's code."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from threading import get_ident

from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.engine.exception_fields import exception_fields
from sublet.ports import Log, Signal, Tasks
from sublet.protocol.checkpoint import Checkpoint
from sublet.settings import LogExceptions

Listener = Callable[[Event], object]

MAX_WAITING = 1000
"""How many events may wait for a slow listener. Further ones are left out, and an event says how many."""

WAIT_AT_END = timedelta(seconds=1)
"""How long a fetch, a consume or a session waits at its end for its events to be delivered."""


class SessionEvents:
    """The events of one group session. Thread-safe. It drops the listeners once the session is over and all events are
    delivered, so that a record which the program keeps does not keep its listeners in memory.
    """

    def __init__(self, tasks: Tasks, listener: Listener) -> None:
        self._tasks = tasks
        self._listeners: list[Listener] = [listener]
        self._lock = tasks.lock()
        """Guards the listeners and the private attributes below."""
        self._waiting: deque[Event] = deque()
        self._left_out = 0
        self._is_telling = False
        self._teller: int | None = None
        """The thread that calls the listeners."""
        self._told: list[Signal] = []
        """Set when no event waits any longer."""
        self._is_over = False
        self.log: Log | None = None
        """The log is set before the engine begins, as is `log_exceptions`."""
        self.log_exceptions = LogExceptions.FULL

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """Call the listener no more; a call in progress still ends."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def tell(self, event: Event) -> None:
        """Pass the event on to the listeners. Returns at once."""
        with self._lock:
            if not self._listeners:
                return
            if len(self._waiting) == MAX_WAITING:
                self._left_out += 1
                return
            self._waiting.append(event)
            if not self._is_telling:
                with suppress(RuntimeError):  # no thread to be had; the next event tries again
                    self._tasks.spawn(self._tell)
                    self._is_telling = True

    def wait(self) -> None:
        """Wait until all events are delivered, for WAIT_AT_END at most. Returns at once in a listener."""
        with self._lock:
            if not self._is_telling or self._teller == get_ident():
                return
            told = self._tasks.signal()
            self._told.append(told)
        told.wait(WAIT_AT_END)

    def finish(self) -> None:
        """End with the session. Waiting events are still delivered, unless no thread could be started for them."""
        with self._lock:
            self._is_over = True
            if not self._is_telling:
                self._listeners.clear()

    def _tell(self) -> None:
        while (found := self._next()) is not None:
            event, listeners = found
            for listener in listeners:
                self._call(listener, event)

    def _next(self) -> tuple[Event, list[Listener]] | None:
        """The next event in order, and the listeners to call. None if there is no event; this task then ends."""
        with self._lock:
            self._teller = get_ident()
            if self._waiting:
                return self._waiting.popleft(), list(self._listeners)
            if self._left_out:
                left_out, self._left_out = self._left_out, 0
                detail = f"{left_out} events were left out while on_event was busy"
                return Event(EventKind.SLOW_LISTENER, detail=detail), list(self._listeners)
            self._is_telling, self._teller = False, None
            if self._is_over:
                self._listeners.clear()
            for told in self._told:
                told.set()
            self._told.clear()
            return None

    def _call(self, listener: Listener, event: Event) -> None:
        try:
            listener(event)
        except BaseException as failure:  # noqa: BLE001 - whatever the program's code raises, the next listener is called
            if self.log is not None:
                fields = exception_fields(failure, self.log_exceptions)
                self.log.error("on_event failed", event=event.kind, **fields)


class LeaseEvents:
    """Sends one event for the end of each acquired lease. Thread-safe if only one thread at a time handles a given
    lease.
    """

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._held: set[str] = set()
        """The ids of the shards whose leases are held."""

    def begin(self, shard_id: str, checkpoint: Checkpoint) -> None:
        self._held.add(shard_id)
        self._tell(Event(EventKind.LEASE_ACQUIRED, shard_id, f"from {checkpoint}"))

    def end(self, shard_id: str, how: EventKind, detail: str = "") -> None:
        """Does nothing if the lease has already ended, or never began: a lease may be released before anything is
        read.
        """
        if shard_id in self._held:
            self._held.discard(shard_id)
            self._tell(Event(how, shard_id, detail))
