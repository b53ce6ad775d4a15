"""Threads that serve one lease for as long as it is held: some handlers keep what only the thread that made it may use.

An SQLite connection, a thread-local session and a value in `threading.local` are such. kclpy runs a record processor in
one process with one thread, and Lambda calls a function in one thread, so handlers that come from there rely on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta

from sublet.ports import Tasks
from sublet.settings import Settings

LAST_CALLS = frozenset(("lease_releasing", "lease_lost", "shard_ended"))
"""The functions of a handler after which a lease is not held any more."""

IDLE_WAIT = timedelta(days=1)

ALL = ""
"""The key of the only thread, where all leases have the same one."""


class LeaseThread:
    """Does one piece of work after the other, in one thread."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._given: deque[Callable[[], None]] = deque()
        self._wake = tasks.signal()
        self._is_over = False
        tasks.spawn(self._run)

    def do(self, work: Callable[[], None]) -> None:
        self._given.append(work)
        self._wake.set()

    def end(self) -> None:
        """The thread ends after what it has been given."""
        self._is_over = True
        self._wake.set()

    def _run(self) -> None:
        while True:
            while not self._wake.wait(IDLE_WAIT):
                pass
            # A signal is set once. What is given from here on sets the new one, and what was given before is in the
            # queue.
            self._wake = self._tasks.signal()
            while self._given:
                self._given.popleft()()
            if self._is_over:
                return


class CallThreads:
    """Chooses the thread of each handler call."""

    def __init__(self, tasks: Tasks, settings: Settings) -> None:
        self._tasks = tasks
        self._is_per_lease = settings.has_thread_per_lease
        self._is_one = settings.is_called_one_at_a_time
        self._threads: dict[str, LeaseThread] = {}

    @property
    def are_reused(self) -> bool:
        """Whether calls have a thread that lasts longer than their session."""
        return self._is_per_lease or self._is_one

    def spawn(self, lease_key: str, work: Callable[[], None]) -> None:
        """Do the work in its thread. Raises RuntimeError if no thread can be started."""
        if not self.are_reused:
            self._tasks.spawn(work)
            return
        key = self._key(lease_key)
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = LeaseThread(self._tasks)
        thread.do(work)

    def ended(self, lease_key: str, what: str, *, is_given_up: bool) -> None:
        """A call of `what` is over, or was given up and still has its thread, so that the next call needs another
        one.
        """
        if not is_given_up and (self._is_one or what not in LAST_CALLS):
            return
        self._end(self._key(lease_key))

    def let_go(self, lease_key: str) -> None:
        """The lease is not held any more, whether or not the handler has a function that is called then."""
        if not self._is_one:
            self._end(lease_key)

    def close(self) -> None:
        """No more calls will come."""
        for key in tuple(self._threads):
            self._end(key)

    def _end(self, key: str) -> None:
        thread = self._threads.pop(key, None)
        if thread is not None:
            thread.end()

    def _key(self, lease_key: str) -> str:
        return ALL if self._is_one else lease_key
