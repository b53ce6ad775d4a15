"""The buffer between the engine's threads and the program that pulls.

A session's thread offers its batch and waits until all of it is admitted. So a full buffer stops the polls, while
heartbeats continue on another thread. A program takes one record, with a prefetch of those that follow it. If there is
none, it leaves a waiter, which is set when the program should ask again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.decisions.pull.pull_request import PullSize, as_duration
from sublet.errors import SettingsError
from sublet.handler import Batch
from sublet.ports import Clock, Tasks
from sublet.pull.interrupts_and_forks import LockOfParent, RepairOnEntry
from sublet.pull.prefetch import Delivery
from sublet.pull.pull_state import LookAgain, PullRequest, PullState
from sublet.pull.refill import BufferLimits
from sublet.pull.shard_queue import ShardQueue, ends_of

LEAVE_CHECKED_EVERY = timedelta(seconds=1)
"""How often a session's thread that waits here checks whether its lease should be released."""

NEEDS_A_DESTINATION = (
    "given to the Consumer, as the ARN of an SQS queue, an SNS topic or an S3 bucket: term() keeps the record there. "
    "Without it, ack() gives the record up, and nak(delay) has it come again"
)


class Waiter(Protocol):
    """Wakes one request. It is set once, when something has changed, and the request then asks again."""

    def set(self) -> None: ...


SetAside = Callable[[Delivery, str], bool]
"""Gives a record to the failure destination with a reason. True if the destination took it."""


def _no_quiet_shards() -> None:
    """Does nothing: until the engine runs, there are no shards to poll."""


class Buffer:
    """The records of one group session, from its first lease to its last. Thread-safe."""

    def __init__(self, clock: Clock, tasks: Tasks, limits: BufferLimits, tell: Callable[[Event], None]) -> None:
        self.clock = clock
        self.tasks = tasks
        self.tell = tell
        self._lock: AbstractContextManager[object] = tasks.lock()
        """Guards `_state`, `_fault` and `_is_closed`. Code without it also reads and changes `_waiters`, `is_open`, and
        the limits and the cached demand of `_state`, each in one atomic step.
        """
        self._change = RepairOnEntry(self._repair)
        self._state = PullState(clock, limits, self._changed)
        self._prefetches = self._state.prefetches
        self._waiters: dict[Waiter, None] = {}
        """In the order in which they began to wait."""
        self.is_open = True
        """False once nothing more is handed out; acks and naks still count."""
        self._is_closed = False
        self._fault: BaseException | None = None
        self.poll_quiet_shards: Callable[[], None] = _no_quiet_shards
        """A fetch calls this, because it may expire before a quiet shard's next poll is due."""
        self.set_aside: SetAside | None = None
        """None if there is no failure destination."""

    @property
    def limits(self) -> BufferLimits:
        return self._state.limits

    @limits.setter
    def limits(self, limits: BufferLimits) -> None:
        self._state.limits = limits

    # For the engine's threads.

    def open_shard(self, shard_id: str) -> None:
        """Start the shard afresh, because its lease was acquired or its position moved. Records that are out no longer
        count.
        """
        with self._lock, self._change:
            self._state.open(shard_id)

    def offer(self, batch: Batch) -> None:
        """Returns when all of the batch is admitted, or when the lease should be released."""
        ends = ends_of(batch.records)  # unpacks user records, which takes too long to hold the lock
        with self._lock, self._change:
            offer = None if self._is_closed else self._state.offer(batch, ends, self.tasks.signal())
        while offer is not None and not offer.changed.wait(LEAVE_CHECKED_EVERY):
            if batch.remaining_time_in_millis() == 0:
                with self._lock, self._change:
                    self._state.refill.withdraw(offer)
                return

    def wait_until_done(self, shard_id: str) -> bool:
        """Wait until every admitted record of the shard is acknowledged. False if its lease should be released before
        that.
        """
        while True:
            with self._lock, self._change:
                self._prefetches.note()
                queue = self._state.queues.get(shard_id)
                if queue is None or queue.is_idle or self._is_closed:
                    return queue is None or queue.is_idle
                changed = self.tasks.signal()
                self._waiters[changed] = None
                batch = queue.batch
            if batch is not None and batch.remaining_time_in_millis() == 0:
                self.unsubscribe(changed)
                return False
            changed.wait(LEAVE_CHECKED_EVERY)
            self.unsubscribe(changed)

    def close_shard(self, shard_id: str) -> None:
        """Drop a shard whose lease is gone. The next owner gets its buffered and unacknowledged records again."""
        with self._lock, self._change:
            self._state.void(shard_id)
            self._changed()

    def checkpoint(self, shard_id: str | None = None) -> None:
        """Report the finished prefix of one shard, or of all, to the engine if it has grown."""
        with self._lock, self._change:
            self._prefetches.note()
            queues = self._state.queues
            wanted = list(queues.values()) if shard_id is None else [queues.get(shard_id)]
            finished = [last for queue in wanted if queue is not None and (last := queue.to_checkpoint())]
        for batch, record in finished:
            batch.checkpoint(record)

    # For the program that pulls.

    def begin(self, request: PullRequest) -> None:
        with self._lock, self._change:
            self._state.begin(request)
            is_in_a_hurry = request.expires_at is not None and not self._state.totals.records
        if is_in_a_hurry:
            self.poll_quiet_shards()

    def end_prefetch(self) -> None:
        """Let nothing more be taken without asking. The record taken last is out, and not done yet."""
        with self._lock, self._change:
            self._prefetches.end()

    def end(self, request: PullRequest) -> None:
        """Take the request off: it wants nothing more. Buffered records stay for another request."""
        with self._lock, self._change:
            self._state.end(request)
            self._changed()

    def take(self, request: PullRequest, waiter: Waiter | None) -> Delivery | LookAgain | None:
        """Returns the next record, which is out from now on; take those that follow from `request.prefetched` while it
        has any. Returns None if the request is over, and LookAgain if there is no record now: the waiter, if one is
        given, is then set at the next change, unless it leaves before. Raises the error that ended the group session.
        """
        overdue: dict[ShardQueue, int] = {}
        with self._lock, self._change:
            self._prefetches.end()
            if waiter is not None:  # before the look: a change made without the lock is then not missed
                self._waiters[waiter] = None
            if self._fault is not None:
                raise self._fault
            delivers = self.is_open and not self._is_closed
            found = self._state.next_for(request, overdue) if delivers else None
        for queue, records in overdue.items():
            self.tell(Event(EventKind.ACK_WAIT_OVER, queue.shard_id, f"{records} of its records come again"))
        return found

    # What a program can do with a record that is out. Each returns True if it counted.

    def ack(self, delivery: Delivery) -> bool:
        with self._lock, self._change:
            self._prefetches.note()
            counts = delivery.queue.ack(delivery.number, delivery.times)
            if counts:
                self._state.admit_if_low()
                self._changed()
            return counts

    def nak(self, delivery: Delivery, delay: timedelta | float) -> bool:
        later = as_duration("delay", delay)
        with self._lock, self._change:
            self._prefetches.end()
            again_at = self.clock.steady() + later
            counts = delivery.queue.nak(delivery.number, delivery.times, again_at)
            self._state.rotation.due_by(again_at)
            self._changed()
            return counts

    def in_progress(self, delivery: Delivery) -> bool:
        with self._lock, self._change:
            self._prefetches.note()
            until = self.clock.steady() + self.limits.ack_wait
            return delivery.queue.in_progress(delivery.number, delivery.times, until)

    def term(self, delivery: Delivery, reason: str) -> bool:
        """Give the record to the failure destination. Returns when that has answered, and the record is then done."""
        with self._lock, self._change:
            self._prefetches.note()
            is_out = delivery.queue.is_out(delivery.number, delivery.times)
        if is_out and self.set_aside is None:
            raise SettingsError("on_failure", None, NEEDS_A_DESTINATION)
        return self.set_aside is not None and is_out and self.set_aside(delivery, reason) and self.ack(delivery)

    # Its state and its end.

    @property
    def buffered(self) -> PullSize:
        """Records that are admitted and not handed out yet."""
        with self._lock, self._change:
            self._prefetches.note()
            return PullSize(self._state.totals.records, self._state.totals.bytes)

    def wake_all(self) -> None:
        """Make every waiter ask again, after a request was asked to end. Takes no lock: a signal handler calls this,
        and may have interrupted the thread that holds the lock.
        """
        self._state.forget_demand()
        for waiter in list(self._waiters):
            waiter.set()

    def stop_delivering(self) -> None:
        """End every request. Like `wake_all`, this takes no lock."""
        self.is_open = False
        self.wake_all()

    def has_no_outstanding(self, waiter: Waiter) -> bool:
        """True if no record is out. Otherwise the waiter is set once, when that may have changed."""
        with self._lock, self._change:
            self._prefetches.note()
            queues = self._state.queues.values()
            if self._is_closed or not any(queue.acknowledging.out for queue in queues):
                return True
            self._waiters[waiter] = None
            return False

    def unsubscribe(self, waiter: Waiter) -> None:
        """Remove the waiter, whether it was set or not. Takes no lock, because in a forked child the lock cannot be
        taken.
        """
        self._waiters.pop(waiter, None)

    def stop(self) -> None:
        """Hand out nothing more, and wake everything that waits. What is finished can still be checkpointed."""
        with self._lock, self._change:
            self._prefetches.end()
            self._is_closed = True
            self._state.refill.void()
            self._changed()

    def forget(self) -> None:
        """Drop everything when the session is over: a record that the program keeps must not keep the buffer in
        memory.
        """
        with self._lock, self._change:
            self._is_closed = True
            for shard_id in list(self._state.queues):
                self._state.void(shard_id)
            self._state.refill.void()
            self._changed()
            self._state.requests.clear()
            self.set_aside, self.poll_quiet_shards = None, _no_quiet_shards

    def disown(self) -> None:
        """Called in a forked child: taking or acknowledging a record now raises an error that says why."""
        self._lock = LockOfParent()

    def fail(self, fault: BaseException) -> None:
        """End the session with this error, which `take` raises from now on."""
        with self._lock, self._change:
            self._prefetches.end()
            self._fault = self._fault or fault
            self._changed()

    def _changed(self) -> None:
        for waiter in list(self._waiters):
            # Set first: if this is interrupted, the repair sets the waiters that are left.
            waiter.set()
            self._waiters.pop(waiter, None)

    def _repair(self) -> None:
        self._state.repair()
        self._changed()
