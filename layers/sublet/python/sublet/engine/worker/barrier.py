"""Where the leases of a window that keeps them wait for each other at its end: not for long.

The next window begins when all are here, or have left this one. Who has waited for LONGEST_WAIT goes on, so that no shard
stands still for a neighbour's slow call; and when all that are not here have gone on so, they are told to come.
"""

from __future__ import annotations

from datetime import timedelta

from sublet.ports import Signal, Tasks

LONGEST_WAIT = timedelta(seconds=2)


class WindowBarrier:
    """Of one window, by lease key."""

    def __init__(self, tasks: Tasks) -> None:
        self._lock = tasks.lock()
        self._all_are_here = tasks.signal()
        self._under_way: set[str] = set()
        self._here: set[str] = set()
        self._gone_on: dict[str, Signal] = {}
        """Those that have not been told to come again, by what tells them."""

    def __len__(self) -> int:
        """How many are in the window."""
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
        """Whether all are here. If not, it is no longer here either."""
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
        """Until `come` is set."""
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
