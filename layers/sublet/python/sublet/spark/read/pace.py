"""Keeps to a shard's read limit instead of running into it: five calls and 2 MB a second, over a query's looks and
reads.

The driver looks and executors read, without seeing each other's calls. A query's batches follow one another, which is
enough:

* The driver makes at most three calls a second: its looks, and the first call of each task, which it counts on the
  task's behalf when it plans it, and dates to the batch's end as soon as it sees that.
* A task's later calls are half a second apart: two in any second, also across two tasks of successive batches.
* The time that a page's bytes take up is waited for before the next call. A task waits for its last page before it
  ends, and is given what the looks before it still owe.

Other consumers of the stream use the limit too: a throttled poll is repeated, as in the rest of the library.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime, timedelta

from sublet.ports import Clock

BYTES_PER_SECOND = 2 * 2**20

_SECOND = timedelta(seconds=1)
_SLACK = timedelta(milliseconds=20)
"""The service measures seconds by its own clock, and requests take different times to arrive."""

Sleep = Callable[[timedelta], object]


class CallPace:
    """When the next call on each shard may be made. One thread at a time per shard; different shards may use
    different threads."""

    def __init__(self, calls: int, window: timedelta, clock: Clock, sleep: Sleep) -> None:
        """Allows `calls` calls on a shard in any `window`."""
        self._max_calls = calls
        self._window = window
        self._clock = clock
        self._sleep = sleep
        self._calls: dict[str, deque[datetime]] = {}
        self._paid_at: dict[str, datetime] = {}
        self.throttled: Counter[str] = Counter()
        """The calls on each shard that Kinesis refused all the same, because other consumers used up the limit."""

    @classmethod
    def of_driver(cls, clock: Clock, sleep: Sleep) -> CallPace:
        return cls(3, _SECOND + _SLACK, clock, sleep)

    @classmethod
    def of_task(cls, clock: Clock, sleep: Sleep) -> CallPace:
        return cls(1, _SECOND / 2 + _SLACK, clock, sleep)

    def wait_for_call(self, shard_id: str) -> None:
        """Wait until a call may be made, and count it."""
        self.settle(shard_id)
        calls = self._calls_on(shard_id)
        if len(calls) == self._max_calls:
            self._wait(calls[0] + self._window - self._clock.steady())
        calls.append(self._clock.steady())

    def count_call(self, shard_id: str) -> None:
        """Count a call that another process makes, having waited for it here."""
        self.settle(shard_id)
        self._calls_on(shard_id).append(self._clock.steady())

    def date_last_call(self, shard_id: str) -> None:
        """Date the last call to now, because it was made at some time since it was counted."""
        if calls := self._calls_on(shard_id):
            calls[-1] = self._clock.steady()

    def owe(self, shard_id: str, debt: timedelta) -> None:
        """Allow no reads for this long from now on, or longer if more is already owed."""
        paid_at = self._clock.steady() + debt
        self._paid_at[shard_id] = max(paid_at, self._paid_at.get(shard_id, paid_at))

    def count_bytes(self, shard_id: str, size: int) -> None:
        self.owe(shard_id, _SECOND * (size / BYTES_PER_SECOND))

    def debt(self, shard_id: str) -> timedelta:
        """Returns for how long earlier reads still use up the limit."""
        now = self._clock.steady()
        return max(self._paid_at.get(shard_id, now) - now, timedelta(0))

    def settle(self, shard_id: str) -> None:
        """Wait until earlier reads are paid for."""
        self._wait(self.debt(shard_id))

    def _calls_on(self, shard_id: str) -> deque[datetime]:
        return self._calls.setdefault(shard_id, deque(maxlen=self._max_calls))

    def _wait(self, pause: timedelta) -> None:
        if pause > timedelta(0):
            self._sleep(pause)
