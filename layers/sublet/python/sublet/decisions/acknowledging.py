"""What has become of one shard's records that were handed out: under way, done, or to come again.

Records are numbered from 0 on in their order. A delivery is a number and which time it was handed out: when a record is to come
again, the delivery that was out is void, and what is said of it afterwards counts for nothing. Order holds within a key: a record
that comes again brings with it what was out, or would be next, of its key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from msgspec import Struct


class Out(Struct, frozen=True, gc=False):
    """A delivery under way.

    times    how often the record has been handed out
    attempt  1, and one more each time that it was put back or forgotten itself; with an earlier one of its key does not count
    until    it comes again if nothing has been said of it by then
    """

    key: str
    times: int
    attempt: int
    until: datetime


class Tried(NamedTuple):
    """What is known of a record that has been out: how often, and what its next attempt is."""

    times: int
    attempt: int


NEVER = Tried(0, 1)


@dataclass(slots=True)
class Waiting:
    """Records of one key that come again, in order. `until`: not before this moment; None: at once."""

    numbers: deque[int]
    until: datetime | None


class Acknowledging:
    """It changes in place, unlike other values: any number of records may be out, and each ack of a frozen value would copy them
    all. What a change costs does not depend on how many are out, but for those of the same key.

    finished  the first so many are done, and the one after them is not
    out       by number, the one whose time is over first before all others
    """

    def __init__(self) -> None:
        self.finished = 0
        self.out: dict[int, Out] = {}
        self._beyond: set[int] = set()
        """Done, after one that is not."""
        self._out_of: dict[str, set[int]] = {}
        self._waiting: dict[str, Waiting] = {}
        """Not empty. A key that is here has none out that is later than the first of these."""
        self._due: list[tuple[datetime, str]] = []
        """A heap of what waits until a moment, and of what did."""
        self._ready: list[tuple[int, str]] = []
        """A heap of what comes again at once, and of what did."""
        self._tried: dict[int, Tried] = {}
        """Of those that wait, and perhaps of some that are out again."""

    def is_out(self, number: int, times: int) -> bool:
        """Whether this delivery is under way. If not, it is done already, or void."""
        known = self.out.get(number)
        return known is not None and known.times == times

    def is_done(self, number: int) -> bool:
        return number < self.finished or number in self._beyond

    @property
    def is_in_order(self) -> bool:
        """Nothing is to come again, now or later, but what may yet be forgotten."""
        return not self._waiting

    def next_at(self) -> datetime | None:
        """When the next record is to come again, if nobody says anything until then."""
        while self._due and not self._is_due_then(*self._due[0]):
            heappop(self._due)
        first = next(iter(self.out.values()), None)
        moments = [] if first is None else [first.until]
        return min([*moments, self._due[0][0]] if self._due else moments, default=None)

    def next_again(self) -> int | None:
        """The lowest that is to be handed out again at once."""
        while self._ready:
            number, key = self._ready[0]
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.until is None and waiting.numbers[0] == number:
                return number
            heappop(self._ready)
        return None

    def waits(self, key: str) -> bool:
        """Whether records of this key wait, so that a new one has to wait behind them."""
        return key in self._waiting

    def wait(self, number: int, key: str) -> None:
        """It is the next of a key that waits."""
        waiting = self._waiting[key]
        waiting.numbers.append(number)
        if waiting.until is None:
            heappush(self._ready, (number, key))

    def hand_out(self, number: int, key: str, until: datetime) -> Out:
        """The next record of a key: one that waits no longer, or of a key of which none waits. `until` is not before that of any
        that is out."""
        if (waiting := self._waiting.get(key)) is not None:
            waiting.numbers.popleft()
            if not waiting.numbers:
                del self._waiting[key]
        tried = self._tried.get(number, NEVER)
        handed = self.out[number] = Out(key, tried.times + 1, tried.attempt, until)
        self._out_of.setdefault(key, set()).add(number)
        self._tried.pop(number, None)
        return handed

    def hand_out_row(self, start: int, done: int, keys: Sequence[str], until: datetime) -> None:
        """Records that have never been out, one after the other, while no key waits: those up to `done` are done already, and
        of the rest these are the keys."""
        self._finish(start, done)
        for number, key in enumerate(keys, done):
            self.out[number] = Out(key, 1, 1, until)
            self._out_of.setdefault(key, set()).add(number)

    def ack(self, number: int, times: int) -> bool:
        """This record alone is done. False: that delivery is not under way any more, and nothing changes."""
        known = self.out.get(number)
        if known is None or known.times != times:
            return False
        self._finish(number, number + 1)
        self._leave(number, known.key)
        if self._tried:
            self._tried.pop(number, None)
        return True

    def nak(self, number: int, times: int, again_at: datetime) -> bool:
        """It comes again, not before the moment, nor that of another of its key that waits; what is out of its key and later is
        void, and comes again after it.
        """
        if not self.is_out(number, times):
            return False
        key = self.out[number].key
        void = sorted(one for one in self._out_of[key] if one >= number)
        waiting = self._waiting.setdefault(key, Waiting(deque(), None))
        for one in reversed(void):  # all of them before those that wait
            out = self.out[one]
            self._tried[one] = Tried(out.times, out.attempt + (one == number))
            waiting.numbers.appendleft(one)
            self._leave(one, key)
        waiting.until = again_at if waiting.until is None else max(again_at, waiting.until)
        heappush(self._due, (waiting.until, key))
        return True

    def in_progress(self, number: int, times: int, until: datetime) -> bool:
        """It takes longer; `until` is not before that of any that is out."""
        if not self.is_out(number, times):
            return False
        known = self.out[number]
        self._tried[number] = Tried(times, known.attempt)  # before it is nowhere for a moment: see mend
        del self.out[number]
        self.out[number] = Out(known.key, times, known.attempt, until)
        return True

    def look(self, now: datetime) -> list[int]:
        """Have what is due come again. The numbers of those of which nothing was said in time, which do so at once."""
        forgotten = self._overdue(now)
        for number in forgotten:  # of a key the first brings the others
            if (out := self.out.get(number)) is not None:
                self.nak(number, out.times, now)
        while self._due and self._due[0][0] <= now:
            until, key = heappop(self._due)
            if self._is_due_then(until, key):
                self._waiting[key].until = None
                for number in self._waiting[key].numbers:
                    heappush(self._ready, (number, key))
        return forgotten

    def mend(self, upcoming: int, key_of: Callable[[int], str]) -> None:
        """After a change that an exception has cut in two. What is before `upcoming`, and neither done nor out, comes again."""
        self._finish(self.finished, self.finished)
        self.out = {number: out for number, out in self.out.items() if not self.is_done(number)}
        known = {key: waiting.until for key, waiting in self._waiting.items()}
        self._waiting, self._out_of, self._due, self._ready = {}, {}, [], []
        for number in range(self.finished, upcoming):
            if self.is_done(number):
                continue
            out = self.out.get(number)
            key = key_of(number) if out is None else out.key
            if out is not None and key not in self._waiting:
                self._out_of.setdefault(key, set()).add(number)
                continue
            if out is not None:
                self._tried[number] = Tried(out.times, out.attempt)
                del self.out[number]
            self._tried.setdefault(number, Tried(1, 1))
            self._waiting.setdefault(key, Waiting(deque(), known.get(key))).numbers.append(number)
        for key, waiting in self._waiting.items():
            if waiting.until is None:
                self._ready += [(number, key) for number in waiting.numbers]
            else:
                self._due.append((waiting.until, key))
        heapify(self._ready)
        heapify(self._due)

    def _overdue(self, now: datetime) -> list[int]:
        overdue = []
        for number, out in self.out.items():
            if out.until > now:
                break
            overdue.append(number)
        return sorted(overdue)

    def _is_due_then(self, until: datetime, key: str) -> bool:
        waiting = self._waiting.get(key)
        return waiting is not None and waiting.until == until

    def _leave(self, number: int, key: str) -> None:
        """It is out no more."""
        del self.out[number]
        of_key = self._out_of[key]
        of_key.discard(number)
        if not of_key:
            del self._out_of[key]

    def _finish(self, start: int, end: int) -> None:
        """Those from `start` up to `end` are done."""
        if start == self.finished and not self._beyond:  # in order, as nearly always
            self.finished = end
            return
        self._beyond.update(range(max(start, self.finished), end))
        while self.finished in self._beyond:
            self._beyond.discard(self.finished)
            self.finished += 1
