"""Tracks the deliveries of one shard's records: out, done, or due for redelivery.

Records are numbered from 0 in order. A delivery is a record's number and how many times it has been delivered.
Scheduling a redelivery voids the outstanding delivery, and later acks or naks of the void delivery are ignored. Order
holds within a key: redelivering a record also redelivers the later records of its key, and holds back the ones that
have not been out yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from msgspec import Struct


class OutstandingDelivery(Struct, frozen=True, gc=False):
    """An outstanding delivery.

    times    how often the record has been delivered
    attempt  1, plus one each time this record itself was nak'd or timed out; redeliveries caused by an earlier record
             of its key do not count
    until    when it is redelivered unless it is acked, nak'd or extended first
    """

    key: str
    times: int
    attempt: int
    until: datetime


class DeliveryCount(NamedTuple):
    """A record's delivery history: deliveries so far, and the number of its next attempt."""

    times: int
    attempt: int


NEVER = DeliveryCount(0, 1)


@dataclass(slots=True)
class AwaitingRedelivery:
    """Records of one key that wait for redelivery, in order. `until`: not before this moment; None: at once."""

    numbers: deque[int]
    until: datetime | None


class AcknowledgmentState:
    """Mutable, unlike other decisions: any number of records may be out, and a frozen value would have to copy them all
    on each ack. The cost of a change depends only on the number of outstanding records of the same key.

    finished  the length of the finished prefix
    out       outstanding deliveries by number, the earliest deadline first
    """

    def __init__(self) -> None:
        self.finished = 0
        self.out: dict[int, OutstandingDelivery] = {}
        self._beyond: set[int] = set()
        """The numbers that are done beyond the finished prefix."""
        self._out_of: dict[str, set[int]] = {}
        self._waiting: dict[str, AwaitingRedelivery] = {}
        """No queue in here is empty. A key in here has no outstanding record later than the first in its queue."""
        self._due: list[tuple[datetime, str]] = []
        """A heap of delayed redeliveries; may hold stale entries."""
        self._ready: list[tuple[int, str]] = []
        """A heap of redeliveries due now; may hold stale entries."""
        self._tried: dict[int, DeliveryCount] = {}
        """For records that wait, and perhaps some that are out again."""

    def is_out(self, number: int, times: int) -> bool:
        """Whether this delivery is outstanding. If not, it is done or void."""
        known = self.out.get(number)
        return known is not None and known.times == times

    def is_done(self, number: int) -> bool:
        return number < self.finished or number in self._beyond

    @property
    def is_in_order(self) -> bool:
        """No redelivery is scheduled. A timeout may still cause one."""
        return not self._waiting

    def next_at(self) -> datetime | None:
        """When the next redelivery is due, if there is no ack or nak before then."""
        while self._due and not self._is_due_then(*self._due[0]):
            heappop(self._due)
        first = next(iter(self.out.values()), None)
        moments = [] if first is None else [first.until]
        return min([*moments, self._due[0][0]] if self._due else moments, default=None)

    def next_again(self) -> int | None:
        """The lowest record number that is due for redelivery now."""
        while self._ready:
            number, key = self._ready[0]
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.until is None and waiting.numbers[0] == number:
                return number
            heappop(self._ready)
        return None

    def waits(self, key: str) -> bool:
        """Whether records of this key wait for redelivery, so that a new one has to queue behind them."""
        return key in self._waiting

    def wait(self, number: int, key: str) -> None:
        """Queue this record behind the waiting records of its key."""
        waiting = self._waiting[key]
        waiting.numbers.append(number)
        if waiting.until is None:
            heappush(self._ready, (number, key))

    def hand_out(self, number: int, key: str, until: datetime) -> OutstandingDelivery:
        """Deliver the next record of a key: the first in its queue, or a new one if none waits. `until` must not be
        earlier than that of any outstanding delivery.
        """
        if (waiting := self._waiting.get(key)) is not None:
            waiting.numbers.popleft()
            if not waiting.numbers:
                del self._waiting[key]
        tried = self._tried.get(number, NEVER)
        handed = self.out[number] = OutstandingDelivery(key, tried.times + 1, tried.attempt, until)
        self._out_of.setdefault(key, set()).add(number)
        self._tried.pop(number, None)
        return handed

    def hand_out_row(self, start: int, done: int, keys: Sequence[str], until: datetime) -> None:
        """Deliver consecutive records that have never been out, while no key waits. Those up to `done` are done
        already; `keys` are the keys of the rest.
        """
        self._finish(start, done)
        for number, key in enumerate(keys, done):
            self.out[number] = OutstandingDelivery(key, 1, 1, until)
            self._out_of.setdefault(key, set()).add(number)

    def ack(self, number: int, times: int) -> bool:
        """Finish this record alone. Returns False, and changes nothing, if the delivery is no longer outstanding."""
        known = self.out.get(number)
        if known is None or known.times != times:
            return False
        self._finish(number, number + 1)
        self._leave(number, known.key)
        if self._tried:
            self._tried.pop(number, None)
        return True

    def nak(self, number: int, times: int, again_at: datetime) -> bool:
        """Redeliver the record, not before `again_at` and not before the delay of its key's queue ends. Later
        outstanding records of its key are voided and redelivered after it. False if the delivery is no longer
        outstanding.
        """
        if not self.is_out(number, times):
            return False
        key = self.out[number].key
        void = sorted(one for one in self._out_of[key] if one >= number)
        waiting = self._waiting.setdefault(key, AwaitingRedelivery(deque(), None))
        for one in reversed(void):  # all of them go before those that wait
            out = self.out[one]
            self._tried[one] = DeliveryCount(out.times, out.attempt + (one == number))
            waiting.numbers.appendleft(one)
            self._leave(one, key)
        waiting.until = again_at if waiting.until is None else max(again_at, waiting.until)
        heappush(self._due, (waiting.until, key))
        return True

    def in_progress(self, number: int, times: int, until: datetime) -> bool:
        """Extend the deadline. `until` must not be earlier than that of any outstanding delivery."""
        if not self.is_out(number, times):
            return False
        known = self.out[number]
        self._tried[number] = DeliveryCount(
            times, known.attempt
        )  # so that an interruption here leaves a trace: see mend
        del self.out[number]
        self.out[number] = OutstandingDelivery(known.key, times, known.attempt, until)
        return True

    def look(self, now: datetime) -> list[int]:
        """Make due records ready for redelivery. Returns the numbers of those that timed out, which are redelivered at
        once.
        """
        forgotten = self._overdue(now)
        for number in forgotten:  # redelivering the first of a key redelivers the rest
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
        """Repair the state after an exception interrupted a change: redeliver what is before `upcoming` and neither
        done nor out.
        """
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
                self._tried[number] = DeliveryCount(out.times, out.attempt)
                del self.out[number]
            self._tried.setdefault(number, DeliveryCount(1, 1))
            self._waiting.setdefault(key, AwaitingRedelivery(deque(), known.get(key))).numbers.append(number)
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
        del self.out[number]
        of_key = self._out_of[key]
        of_key.discard(number)
        if not of_key:
            del self._out_of[key]

    def _finish(self, start: int, end: int) -> None:
        """Records from `start` up to, not including, `end` are done."""
        if start == self.finished and not self._beyond:  # in order, as nearly always
            self.finished = end
            return
        self._beyond.update(range(max(start, self.finished), end))
        while self.finished in self._beyond:
            self._beyond.discard(self.finished)
            self.finished += 1
