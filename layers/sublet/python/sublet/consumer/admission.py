"""Batches that sessions' threads wait to have admitted into a buffer, and what of them is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from sublet.consumer.delivery import BufferLimits
from sublet.consumer.shard_queue import ShardQueue, Totals
from sublet.decisions.pull_request import Demand, Ends, fitting
from sublet.handler import Batch
from sublet.ports import Signal


@dataclass(slots=True, eq=False)
class Offer:
    """A batch that a session's thread waits to have admitted: `at` is the next record of it."""

    queue: ShardQueue
    batch: Batch
    ends: Ends
    changed: Signal
    at: int = 0

    @property
    def left(self) -> int:
        """So many records are still to be admitted."""
        return len(self.batch.records) - self.at


class Admission:
    """Not safe for threads: its buffer has the lock."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._is_filling = True
        self.offers: deque[Offer] = deque()

    def withdraw(self, offer: Offer) -> None:
        """Nobody waits for it any more: what is not admitted of it never is, nor anything after it."""
        if offer in self.offers:
            self.offers.remove(offer)
            offer.queue.is_cut = True

    def void(self, queue: ShardQueue | None = None) -> None:
        """Let go of who waits with something of this queue, or of any."""
        for offer in [offer for offer in self.offers if queue is None or offer.queue is queue]:
            offer.changed.set()
            self.offers.remove(offer)

    def mend(self) -> None:
        """After a change that an exception has cut in two: what was admitted of each is what its queue has."""
        for offer in list(self.offers):
            offer.at = offer.queue.admitted.admitted_of(offer.batch)
            if not offer.left:
                offer.changed.set()
                self.offers.remove(offer)

    def is_due(self, demand: Demand) -> bool:
        """Whether something may be admitted."""
        return bool(self.offers) and (self._is_filling or demand.is_low(self._totals))

    def admit(self, demand: Demand, limits: BufferLimits, a_turn: int) -> list[ShardQueue]:
        """Records of all offers in turn, as long as they are wanted: a hot shard gets no more of the room than any other. The
        queues that got some.

        a_turn  so many of one shard at least: they are taken within a moment, and it costs no less to hand over a few
        """
        self._is_filling = self._is_filling or demand.is_low(self._totals)
        blocked = in_round = 0
        got: list[ShardQueue] = []
        while self._is_filling and blocked < len(self.offers):
            offer = self.offers[0]
            wanted = demand.takes(offer.ends, offer.at, self._totals)
            if not wanted:
                self._is_filling = False
                break
            in_round = in_round or len(self.offers)
            share = max(wanted // in_round, a_turn, 1)
            count = min(share, wanted, self._may_admit(offer, limits))
            in_round -= 1
            if count:
                offer.queue.admit(offer.batch, offer.ends, offer.at, count)
                offer.at += count
                got.append(offer.queue)
            blocked = 0 if count else blocked + 1
            self._next_turn(offer)
        return got

    def _may_admit(self, offer: Offer, limits: BufferLimits) -> int:
        """How many of its records do not exceed what may be pending of their shard, and unfinished of all. One always may be
        unfinished."""
        unfinished = self._totals.unfinished_bytes
        fit = fitting(offer.ends, offer.at, limits.max_bytes - unfinished)
        pending = limits.max_ack_pending - offer.queue.pending
        return max(min(offer.left, pending, fit or int(unfinished == 0)), 0)

    def _next_turn(self, offer: Offer) -> None:
        if offer.left:
            self.offers.rotate(-1)
        else:
            offer.changed.set()
            self.offers.popleft()
