"""Where the engine's threads and whoever pulls meet.

A session's thread offers its batch and waits until all of it is admitted, which is how a full buffer stops the polls, while the
heartbeats of another thread go on. Whoever pulls takes a record, with a turn of those that follow it, or is told through a waiter
when to look again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from sublet.consumer import turn
from sublet.consumer.admission import Admission, Offer
from sublet.consumer.admitted import ends_of
from sublet.consumer.delivery import BufferLimits, LookAgain, Pull, SetAside, Waiter
from sublet.consumer.forked import NotHere
from sublet.consumer.line import Line
from sublet.consumer.shard_queue import ShardQueue, Totals
from sublet.consumer.turn import Delivery, Turns
from sublet.consumer.whole import Whole
from sublet.decisions.pull_events import Event, EventKind
from sublet.decisions.pull_request import Demand, FetchProgress, Size, as_duration, together
from sublet.errors import SettingsError
from sublet.handler import Batch
from sublet.ports import Clock, Tasks

LOOKS_AGAIN = timedelta(seconds=1)
"""A session's thread that waits for room looks so often whether its lease is to be left."""

NEEDS_A_DESTINATION = (
    "given to the Consumer, as the ARN of an SQS queue, an SNS topic or an S3 bucket: term() keeps the record there. "
    "Without it, ack() gives the record up, and nak(delay) has it come again"
)


def nobody() -> None:
    """Is there to be asked."""


class Buffer:
    """The records of one membership, from its first lease to its last. Safe for threads."""

    def __init__(
        self, clock: Clock, tasks: Tasks, limits: BufferLimits, tell: Callable[[Event], None]
    ) -> None:
        self.clock = clock
        self.tasks = tasks
        self.limits = limits
        self.tell = tell
        self._lock: AbstractContextManager[object] = tasks.lock()
        self._whole = Whole(self._mend)
        self._queues: dict[str, ShardQueue] = {}
        self._totals = Totals()
        self._line = Line(self._queues)
        self._admission = Admission(self._totals)
        self._pulls: list[Pull] = []
        self._waiters: dict[Waiter, None] = {}
        """In the order in which they began."""
        self._turns = Turns()
        self._demand: Demand | None = None
        self.gives = True
        """False: nothing is handed out any more, while what is said of records that are out still counts."""
        self._is_closed = False
        self._fault: BaseException | None = None
        self.poll_quiet_shards: Callable[[], None] = nobody
        """For a fetch, which may be over before each of them is due."""
        self.set_aside: SetAside | None = None
        """None: there is no failure destination."""

    # For the engine's threads.

    def open_shard(self, shard_id: str) -> None:
        """Its lease has been acquired, or its position moved: what was known of it is void."""
        with self._lock, self._whole:
            self._void(shard_id)
            self._queues[shard_id] = ShardQueue(shard_id, self._totals)

    def offer(self, batch: Batch) -> None:
        """Have the batch's records admitted, as whoever pulls wants them; or return before that if the lease is to be left."""
        ends = ends_of(batch.records)
        with self._lock, self._whole:
            queue = self._queues.get(batch.shard_id)
            if queue is None or queue.is_cut or self._is_closed:
                return
            queue.batch = batch
            offer = Offer(queue, batch, ends, self.tasks.signal())
            self._admission.offers.append(offer)
            self._turns.note()
            self._admit()
        while not offer.changed.wait(LOOKS_AGAIN):
            if batch.remaining_time_in_millis() == 0:
                with self._lock, self._whole:
                    self._admission.withdraw(offer)
                return

    def wait_until_done(self, shard_id: str) -> bool:
        """Whether all that was admitted of it is acknowledged, which may take long; if not, its lease is to be left."""
        while True:
            with self._lock, self._whole:
                self._turns.note()
                queue = self._queues.get(shard_id)
                if queue is None or queue.is_idle or self._is_closed:
                    return queue is None or queue.is_idle
                changed = self.tasks.signal()
                self._waiters[changed] = None
                batch = queue.batch
            if batch is not None and batch.remaining_time_in_millis() == 0:
                self.leave(changed)
                return False
            changed.wait(LOOKS_AGAIN)
            self.leave(changed)

    def close_shard(self, shard_id: str) -> None:
        """Its lease is gone: what is buffered or out comes again to whoever has it next."""
        with self._lock, self._whole:
            self._void(shard_id)
            self._changed()

    def checkpoint(self, shard_id: str | None = None) -> None:
        """Tell the engine of what is finished without a gap since the last time; of all shards unless one is named."""
        with self._lock, self._whole:
            self._turns.note()
            queues = list(self._queues.values()) if shard_id is None else [self._queues.get(shard_id)]
            finished = [last for queue in queues if queue is not None and (last := queue.to_checkpoint())]
        for batch, record in finished:
            batch.checkpoint(record)

    def _void(self, shard_id: str) -> None:
        queue = self._queues.pop(shard_id, None)
        if queue is None:
            return
        self._turns.end()
        queue.void()
        self._admission.void(queue)

    # For whoever pulls.

    def begin(self, pull: Pull) -> None:
        with self._lock, self._whole:
            self._turns.end()
            self._pulls.append(pull)
            self._demand = None
            self._admit()
            is_in_a_hurry = pull.expires_at is not None and not self._totals.records
        if is_in_a_hurry:
            self.poll_quiet_shards()

    def end_turn(self) -> None:
        """Nothing more is taken without asking. The last that was taken is out, and nobody says yet that it is done."""
        with self._lock, self._whole:
            self._turns.end()

    def end(self, pull: Pull) -> None:
        """It wants nothing any more. What is buffered stays, for another."""
        with self._lock, self._whole:
            self._turns.end()
            pull.is_over = True
            if pull in self._pulls:
                self._pulls.remove(pull)
            self._demand = None
            self._changed()

    def take(self, pull: Pull, waiter: Waiter | None) -> Delivery | LookAgain | None:
        """The next record, which is out from now on; those that follow may be taken from `pull.ahead`, while their turn lasts.
        None: it is over. Raises what has ended the membership.

        LookAgain: nothing yet. The waiter, if there is one, is told once when something has changed, unless it leaves.
        """
        forgotten: dict[ShardQueue, int] = {}
        with self._lock, self._whole:
            self._turns.end()
            if (
                waiter is not None
            ):  # before it looks: who tells it without the lock has changed something by then
                self._waiters[waiter] = None
            found = self._take(pull, forgotten)
        for queue, records in forgotten.items():
            self.tell(Event(EventKind.ACK_WAIT_OVER, queue.shard_id, f"{records} of its records come again"))
        return found

    def _take(self, pull: Pull, forgotten: dict[ShardQueue, int]) -> Delivery | LookAgain | None:
        if self._fault is not None:
            raise self._fault
        if pull.is_over or not self.gives or self._is_closed:
            return None
        if pull.is_draining and self._has_drained(pull):
            return None
        now = self.clock.steady()
        if pull.expires_at is not None and now >= pull.expires_at and not pull.is_expired:
            pull.is_expired, self._demand = True, None
        forgotten.update(self._line.look(now))
        if (found := self._line.next()) is not None:
            return self._hand_out(pull, *found, now)
        self._admit_if_low()
        if self._line:
            return self._take(pull, forgotten)
        if pull.is_expired:
            return None
        return LookAgain(
            min((at for at in (self._line.next_at(), pull.expires_at) if at is not None), default=None)
        )

    def _has_drained(self, pull: Pull) -> bool:
        """Whether all is done that was admitted when this was first asked."""
        if pull.drains is None:
            pull.drains = {queue: queue.admitted.end for queue in self._queues.values()}
            self._demand = None
        ends = pull.drains.items()
        return all(not queue.is_open or queue.acknowledging.finished >= end for queue, end in ends)

    def _hand_out(self, pull: Pull, queue: ShardQueue, number: int, now: datetime) -> Delivery | None:
        piece = queue.admitted.piece(number)
        if isinstance(pull.wants, FetchProgress):
            after = pull.wants.give(piece.size(number, number + 1))
            if after is None:
                pull.is_over = True
                self._line.add(queue)
                return None
            pull.wants, self._demand = after, None
            if after.is_over:
                pull.is_over = True
        until = now + self.limits.ack_wait
        out = queue.hand_out(number, until)
        self._line.due_by(until)
        self._admit_if_low()
        if out.times == 1 and queue.acknowledging.is_in_order:
            self._begin_turn(pull, queue, until)
        if queue.has_next:
            self._line.add(queue)
        return Delivery(queue, number, out.times, piece.record(number), out.attempt)

    def _begin_turn(self, pull: Pull, queue: ShardQueue, until: datetime) -> None:
        """Of what follows in the queue, if nobody else pulls, and not so much that the buffer would be filled up late. A fetch
        has each record counted as it is handed out.
        """
        if isinstance(pull.wants, FetchProgress) or self._pulls != [pull] or not queue.has_next:
            return
        at_most = turn.RECORDS
        if self._admission.offers:
            piece = queue.admitted.piece(queue.upcoming)
            at = piece.place(queue.upcoming)
            at_most = self._wanted().before_low(piece.ends, at, self._totals)
        left = self._turns.begin(queue, at_most, until, acks=pull.acks)
        if left is not None:
            pull.ahead = left

    # What is said of a record that is out: whether it counts.

    def ack(self, delivery: Delivery) -> bool:
        with self._lock, self._whole:
            self._turns.note()
            counts = delivery.queue.ack(delivery.number, delivery.times)
            if counts:
                self._admit_if_low()
                self._changed()
            return counts

    def nak(self, delivery: Delivery, delay: timedelta | float) -> bool:
        later = as_duration("delay", delay)
        with self._lock, self._whole:
            self._turns.end()
            again_at = self.clock.steady() + later
            counts = delivery.queue.nak(delivery.number, delivery.times, again_at)
            self._line.due_by(again_at)
            self._changed()
            return counts

    def in_progress(self, delivery: Delivery) -> bool:
        with self._lock, self._whole:
            self._turns.note()
            until = self.clock.steady() + self.limits.ack_wait
            return delivery.queue.in_progress(delivery.number, delivery.times, until)

    def term(self, delivery: Delivery, reason: str) -> bool:
        """Set it aside, which may take long, and then it is done."""
        with self._lock, self._whole:
            self._turns.note()
            is_out = delivery.queue.is_out(delivery.number, delivery.times)
        if is_out and self.set_aside is None:
            raise SettingsError("on_failure", None, NEEDS_A_DESTINATION)
        return (
            self.set_aside is not None and is_out and self.set_aside(delivery, reason) and self.ack(delivery)
        )

    # Its beginning and end.

    @property
    def buffered(self) -> Size:
        """What is admitted and has not been out yet."""
        with self._lock, self._whole:
            self._turns.note()
            return Size(self._totals.records, self._totals.bytes)

    def tell_at_once(self) -> None:
        """Have whoever waits look again: a pull has been told to end. Without the lock: a signal handler tells it, which may have
        interrupted who holds that.
        """
        self._demand = None
        for waiter in list(self._waiters):
            waiter.set()

    def give_no_more(self) -> None:
        """Every pull is over. Without the lock, as `tell_at_once`."""
        self.gives = False
        self.tell_at_once()

    def has_none_out(self, waiter: Waiter) -> bool:
        """Whether something has been said of all that is out. If not, the waiter is told once when that may have changed."""
        with self._lock, self._whole:
            self._turns.note()
            if self._is_closed or not any(queue.acknowledging.out for queue in self._queues.values()):
                return True
            self._waiters[waiter] = None
            return False

    def leave(self, waiter: Waiter) -> None:
        """It waits no more, told or not. Without the lock, which a forked child has not."""
        self._waiters.pop(waiter, None)

    def stop(self) -> None:
        """Hand out nothing any more, and let go of whoever waits. What is finished can still be checkpointed."""
        with self._lock, self._whole:
            self._turns.end()
            self._is_closed = True
            self._admission.void()
            self._changed()

    def forget(self) -> None:
        """The membership is over: whoever keeps a record keeps nothing of it in memory but that."""
        with self._lock, self._whole:
            self._is_closed = True
            for shard_id in list(self._queues):
                self._void(shard_id)
            self._admission.void()
            self._changed()
            self._pulls.clear()
            self.set_aside, self.poll_quiet_shards = None, nobody

    def disown(self) -> None:
        """In a forked child: whoever takes a record, or says something of one, is told."""
        self._lock = NotHere()

    def fail(self, fault: BaseException) -> None:
        """What ends the membership: raised from now on to whoever pulls."""
        with self._lock, self._whole:
            self._turns.end()
            self._fault = self._fault or fault
            self._changed()

    def _changed(self) -> None:
        for waiter in list(self._waiters):  # told first: if this is cut short, each of them is told later
            waiter.set()
            self._waiters.pop(waiter, None)

    def _mend(self) -> None:
        """After a change that an exception has cut in two: what is admitted and done stands, and all else follows from that."""
        self._turns.mend()
        self._totals.records = self._totals.bytes = self._totals.unfinished_bytes = 0
        for queue in self._queues.values():
            queue.mend()
        self._admission.mend()
        self._line.mend()
        self._demand = None
        self._changed()

    def _admit_if_low(self) -> None:
        if self._admission.is_due(self._wanted()):
            self._admit()

    def _wanted(self) -> Demand:
        """Of all who pull. Kept until one of them wants something else: this is asked for each record."""
        demand = self._demand
        if demand is None:
            demand = self._demand = together([pull.demand() for pull in self._pulls])
        return demand

    def _admit(self) -> None:
        got = self._admission.admit(self._wanted(), self.limits, self._turns.usual)
        for queue in got:
            self._line.add(queue)
        if got:
            self._changed()
