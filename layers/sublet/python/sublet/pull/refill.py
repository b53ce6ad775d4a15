"""Batches that wait for room in the buffer, and how much of each is admitted."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import timedelta

from sublet.decisions.pull.pull_request import BufferDemand, Ends, fitting
from sublet.handler import Batch
from sublet.ports import Signal
from sublet.pull.shard_queue import QueueTotals, ShardQueue


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """max_ack_pending  how many admitted records one shard may have beyond its finished prefix
    max_bytes        how many bytes all unfinished records of all shards may have
    ack_wait         how long a record may be out
    """

    max_ack_pending: int
    max_bytes: int
    ack_wait: timedelta


@dataclass(slots=True, eq=False)
class OfferedBatch:
    """A batch that a session's thread offers; it waits until all is admitted. `at`: the index of the next record to
    admit.
    """

    queue: ShardQueue
    batch: Batch
    ends: Ends
    changed: Signal
    at: int = 0

    @property
    def left(self) -> int:
        """How many of the batch's records are not admitted yet."""
        return len(self.batch.records) - self.at


class RefillQueue:
    """The offers of all sessions, which the buffer admits bit by bit. Not thread-safe: the buffer's lock guards it."""

    def __init__(self, totals: QueueTotals) -> None:
        self._totals = totals
        self._is_filling = True
        self.offers: deque[OfferedBatch] = deque()

    def withdraw(self, offer: OfferedBatch) -> None:
        """Called when the thread of an offer stops waiting. Neither the rest of the batch nor anything after it is
        admitted.
        """
        if offer in self.offers:
            self.offers.remove(offer)
            offer.queue.is_cut = True

    def void(self, queue: ShardQueue | None = None) -> None:
        """Release the threads that wait with a batch for this queue, or for any queue."""
        for offer in [offer for offer in self.offers if queue is None or offer.queue is queue]:
            offer.changed.set()
            self.offers.remove(offer)

    def repair(self) -> None:
        """Called after an interrupted change: the queues know how much of each offer was admitted."""
        for offer in list(self.offers):
            offer.at = offer.queue.log.admitted_of(offer.batch)
            if not offer.left:
                offer.changed.set()
                self.offers.remove(offer)

    def is_due(self, demand: BufferDemand) -> bool:
        """True if something may be admitted."""
        return bool(self.offers) and (self._is_filling or demand.is_low(self._totals))

    def admit(self, demand: BufferDemand, limits: BufferLimits, at_least: int) -> list[ShardQueue]:
        """Admit records of all offers in turn while there is demand, so that a hot shard gets no more room than
        another. Returns the queues that got records.

        at_least  admit this many records of a shard at a time, if they fit: a prefetch takes about as many, and
                  admitting fewer costs the same
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
            share = max(wanted // in_round, at_least, 1)
            count = min(share, wanted, self._may_admit(offer, limits))
            in_round -= 1
            if count:
                offer.queue.admit(offer.batch, offer.ends, offer.at, count)
                offer.at += count
                got.append(offer.queue)
            blocked = 0 if count else blocked + 1
            self._next_offer(offer)
        return got

    def _may_admit(self, offer: OfferedBatch, limits: BufferLimits) -> int:
        """How many of the offer's records fit both limits. If nothing is unfinished, one record always fits."""
        unfinished = self._totals.unfinished_bytes
        fit = fitting(offer.ends, offer.at, limits.max_bytes - unfinished)
        pending = limits.max_ack_pending - offer.queue.pending
        return max(min(offer.left, pending, fit or int(unfinished == 0)), 0)

    def _next_offer(self, offer: OfferedBatch) -> None:
        if offer.left:
            self.offers.rotate(-1)
        else:
            offer.changed.set()
            self.offers.popleft()
