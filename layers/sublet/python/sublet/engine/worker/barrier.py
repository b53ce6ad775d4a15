"""The window barrier: where kept leases wait for each other at a window's end, but not for long.

The next window begins when every lease of this one waits here or has left. A lease that has waited for LONGEST_WAIT
goes on, so that no shard stands still because of another shard's slow call. When all leases that are missing have gone
on, they are recalled.
"""

from __future__ import annotations

from datetime import timedelta

from sublet.ports import Signal, Tasks

LONGEST_WAIT = timedelta(seconds=2)


class WindowBarrier:
    """One for each window. Leases are named by their keys."""

    def __init__(self, tasks: Tasks) -> None:
        self._lock = tasks.lock()
        """Guards all fields."""
        self._all_are_here = tasks.signal()
        self._under_way: set[str] = set()
        self._here: set[str] = set()
        self._gone_on: dict[str, Signal] = {}
        """Leases still running, with the signal that recalls each."""

    def __len__(self) -> int:
        """How many leases are in the window."""
        return len(self._under_way)

    def join(self, lease_key: str) -> None:
        with self._lock:
            self._under_way.add(lease_key)

    def leave(self, lease_key: str) -> None:
        with self._lock:
            self._under_way.discard(lease_key)
            self._here.discard(lease_key)
            self._gone_on.pop(lease_key, None)
            self._look()

    def wait(self, lease_key: str) -> bool:
        """Wait for the other leases. Returns True if all are here. Otherwise this lease no longer waits here."""
        with self._lock:
            self._gone_on.pop(lease_key, None)
            self._here.add(lease_key)
            self._look()
        if self._all_are_here.wait(LONGEST_WAIT):
            return True
        with self._lock:
            if not self._all_are_here.is_set():
                self._here.discard(lease_key)
            return self._all_are_here.is_set()

    def go_on(self, lease_key: str, come: Signal) -> None:
        """The lease goes on until `come` is set."""
        with self._lock:
            self._gone_on[lease_key] = come
            self._look()

    def _look(self) -> None:
        missing = self._under_way - self._here
        if self._here and not missing:
            self._all_are_here.set()
        elif missing <= self._gone_on.keys():
            for come in self._gone_on.values():
                come.set()
            self._gone_on.clear()
