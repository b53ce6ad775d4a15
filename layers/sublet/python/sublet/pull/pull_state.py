"""A buffer's state: its shards' queues, the pulls in progress, and which record goes to which pull next. Not
thread-safe: the buffer's lock guards it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sublet.decisions.pull.pull_request import NO_DEMAND, BufferDemand, Ends, FetchProgress, together
from sublet.handler import Batch
from sublet.ports import Clock, Signal
from sublet.pull.prefetch import MAX_PREFETCH, Delivery, PrefetchHistory
from sublet.pull.refill import BufferLimits, OfferedBatch, RefillQueue
from sublet.pull.shard_queue import QueueTotals, ShardQueue


class LookAgain(NamedTuple):
    """There is no record now. Ask again when the waiter is set, or at this moment by the steady clock (None if none is
    known).
    """

    at: datetime | None


@dataclass(slots=True, eq=False)
class PullRequest:
    """A fetch, messages or consume in progress, as the buffer sees it. `acks`: taking a record acknowledges the one
    before.
    """

    wants: FetchProgress | BufferDemand
    expires_at: datetime | None = None
    """The moment, by the steady clock, after which nothing more is admitted for this request. The request then ends
    when the buffer is empty.
    """
    acks: bool = False
    prefetched: deque[Delivery] = field(default_factory=deque)
    """Records that may be taken without asking (see Prefetch)."""
    is_expired: bool = False
    is_draining: bool = False
    drains: dict[ShardQueue, int] | None = None
    """A request that drains still waits for each of these shards, up to the record before this number."""
    is_over: bool = False

    def demand(self) -> BufferDemand:
        if self.is_expired or self.is_draining or self.is_over:
            return NO_DEMAND
        return self.wants.demand() if isinstance(self.wants, FetchProgress) else self.wants


class ShardRotation:
    """The shards that may have a record to hand out, in turn, and when the next redelivery is due."""

    def __init__(self, queues: Mapping[str, ShardQueue]) -> None:
        self._queues = queues
        self._rotation: deque[ShardQueue] = deque()
        self._due_at: datetime | None = None
        """The earliest moment at which a record comes again."""

    def __bool__(self) -> bool:
        return bool(self._rotation)

    def add(self, queue: ShardQueue) -> None:
        """Put the queue at the end, unless it is in the rotation already."""
        if not queue.is_in_rotation:
            queue.is_in_rotation = True
            self._rotation.append(queue)

    def pop(self) -> tuple[ShardQueue, int] | None:
        """The first queue that has a record, and the record's number. The queue leaves the rotation."""
        while self._rotation:
            queue = self._rotation.popleft()
            number = queue.next() if queue.is_open else None
            queue.is_in_rotation = False
            if number is not None:
                return queue, number
        return None

    def redeliver(self, now: datetime) -> dict[ShardQueue, int]:
        """Make records that are due to come again available. Returns how many of each shard exceeded `ack_wait`."""
        overdue_of: dict[ShardQueue, int] = {}
        if self._due_at is None or now < self._due_at:
            return overdue_of
        for queue in self._queues.values():
            if overdue := queue.acknowledging.look(now):
                overdue_of[queue] = len(overdue)
            if queue.has_next:
                self.add(queue)
        self._due_at = self.next_at()
        return overdue_of

    def due_by(self, moment: datetime) -> None:
        """Note that a record comes again at this moment."""
        self._due_at = moment if self._due_at is None else min(self._due_at, moment)

    def next_at(self) -> datetime | None:
        """When the next record comes again, if nothing is acknowledged before."""
        moments = (queue.acknowledging.next_at() for queue in self._queues.values())
        return min((at for at in moments if at is not None), default=None)

    def repair(self) -> None:
        """Called after an interrupted change: any queue may have a record."""
        self._rotation = deque(self._queues.values())
        for queue in self._rotation:
            queue.is_in_rotation = True
        self._due_at = self.next_at()


class PullState:
    """A buffer's records and requests. `on_change` is called after records were admitted, when a waiting program may
    find one.
    """

    def __init__(self, clock: Clock, limits: BufferLimits, on_change: Callable[[], None]) -> None:
        self.clock = clock
        self.limits = limits
        self.queues: dict[str, ShardQueue] = {}
        self.totals = QueueTotals()
        self.rotation = ShardRotation(self.queues)
        self.refill = RefillQueue(self.totals)
        self.requests: list[PullRequest] = []
        self.prefetches = PrefetchHistory()
        self._on_change = on_change
        self._demand: BufferDemand | None = None

    def open(self, shard_id: str) -> None:
        self.void(shard_id)
        self.queues[shard_id] = ShardQueue(shard_id, self.totals)

    def void(self, shard_id: str) -> None:
        queue = self.queues.pop(shard_id, None)
        if queue is None:
            return
        self.prefetches.end()
        queue.void()
        self.refill.void(queue)

    def offer(self, batch: Batch, ends: Ends, changed: Signal) -> OfferedBatch | None:
        """Take a batch to admit; set `changed` when all of it is admitted. None if the shard's lease is gone or about
        to go.
        """
        queue = self.queues.get(batch.shard_id)
        if queue is None or queue.is_cut:
            return None
        queue.batch = batch
        offer = OfferedBatch(queue, batch, ends, changed)
        self.refill.offers.append(offer)
        self.prefetches.note()
        self.admit()
        return offer

    def begin(self, request: PullRequest) -> None:
        self.prefetches.end()
        self.requests.append(request)
        self.forget_demand()
        self.admit()

    def end(self, request: PullRequest) -> None:
        self.prefetches.end()
        request.is_over = True
        if request in self.requests:
            self.requests.remove(request)
        self.forget_demand()

    def next_for(self, request: PullRequest, overdue: dict[ShardQueue, int]) -> Delivery | LookAgain | None:
        """The next record for this request, which is out from now on. None if the request is over. Adds to `overdue`
        how many records of each shard have exceeded `ack_wait`.
        """
        if request.is_over or (request.is_draining and self._is_drained(request)):
            return None
        now = self.clock.steady()
        if request.expires_at is not None and now >= request.expires_at and not request.is_expired:
            request.is_expired, self._demand = True, None
        overdue.update(self.rotation.redeliver(now))
        if (found := self.rotation.pop()) is not None:
            return self._hand_out(request, *found, now)
        self.admit_if_low()
        if self.rotation:
            return self.next_for(request, overdue)
        if request.is_expired:
            return None
        moments = (self.rotation.next_at(), request.expires_at)
        return LookAgain(min((at for at in moments if at is not None), default=None))

    def _is_drained(self, request: PullRequest) -> bool:
        """True if every record that was admitted at the first call is done."""
        if request.drains is None:
            request.drains = {queue: queue.log.end for queue in self.queues.values()}
            self._demand = None
        ends = request.drains.items()
        return all(not queue.is_open or queue.acknowledging.finished >= end for queue, end in ends)

    def _hand_out(self, request: PullRequest, queue: ShardQueue, number: int, now: datetime) -> Delivery | None:
        segment = queue.log.segment(number)
        if isinstance(request.wants, FetchProgress):
            after = request.wants.give(segment.size(number, number + 1))
            if after is None:
                request.is_over = True
                self.rotation.add(queue)
                return None
            request.wants, self._demand = after, None
            if after.is_over:
                request.is_over = True
        until = now + self.limits.ack_wait
        out = queue.hand_out(number, until)
        self.rotation.due_by(until)
        self.admit_if_low()
        if out.times == 1 and queue.acknowledging.is_in_order:
            self._prefetch(request, queue, until)
        if queue.has_next:
            self.rotation.add(queue)
        return Delivery(queue, number, out.times, segment.record(number), out.attempt)

    def _prefetch(self, request: PullRequest, queue: ShardQueue, until: datetime) -> None:
        """Prefetch what follows in the queue if no other request is open, but not so much that the refill comes late. A
        fetch gets no prefetch, since it counts each record as it is handed out.
        """
        if isinstance(request.wants, FetchProgress) or self.requests != [request] or not queue.has_next:
            return
        at_most = MAX_PREFETCH
        if self.refill.offers:
            segment = queue.log.segment(queue.upcoming)
            at = segment.place(queue.upcoming)
            at_most = self._total_demand().before_low(segment.ends, at, self.totals)
        left = self.prefetches.begin(queue, at_most, until, acks=request.acks)
        if left is not None:
            request.prefetched = left

    def admit_if_low(self) -> None:
        if self.refill.is_due(self._total_demand()):
            self.admit()

    def admit(self) -> None:
        got = self.refill.admit(self._total_demand(), self.limits, self.prefetches.usual)
        for queue in got:
            self.rotation.add(queue)
        if got:
            self._on_change()

    def _total_demand(self) -> BufferDemand:
        """The demand of all requests together. Cached until a request changes, since it is read for each record."""
        demand = self._demand
        if demand is None:
            demand = self._demand = together([request.demand() for request in self.requests])
        return demand

    def forget_demand(self) -> None:
        """Call this when a request has changed. Takes no lock, so a signal handler may call it."""
        self._demand = None

    def repair(self) -> None:
        """Called after an interrupted change: recompute everything from the logs and from what is done, which are
        intact.
        """
        self.prefetches.repair()
        self.totals.records = self.totals.bytes = self.totals.unfinished_bytes = 0
        for queue in self.queues.values():
            queue.repair()
        self.refill.repair()
        self.rotation.repair()
        self._demand = None
