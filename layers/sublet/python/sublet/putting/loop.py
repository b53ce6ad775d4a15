"""A producer's loop: takes records from any thread. Its tasks plan, put, list the shards and report the outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, NoReturn

from sublet.decisions.putting.outbox import ProducerRules, QueuedRecord
from sublet.decisions.putting.placing import RecordPlacing
from sublet.decisions.putting.producing import Produced, ProducerState, PutCall, SendPlan, SettledRecords
from sublet.decisions.time_and_chance import Chance
from sublet.errors import ProducerClosed, ProducerFailed, RecordsNotPut
from sublet.ports import Clock, Log, RecordWriter, Signal, Tasks
from sublet.protocol.records import PutRefused
from sublet.protocol.stream_info import PutRecord
from sublet.putting.arrivals import ArrivalCounter
from sublet.putting.given_up import GivenUp
from sublet.putting.listings import ShardListings
from sublet.putting.placing_source import PlacingSource
from sublet.putting.tracing import PutTraces

Tell = Callable[[Sequence[SettledRecords]], None]
"""Reports the outcomes of records to the program. Called from any of the loop's threads, without its lock."""

LOOKED_AFTER = timedelta(seconds=60)
"""The longest time that the loop sleeps."""

CLOSED = "producer is closed; create a new one"

FAILED = (
    "internal error stopped the producer: {}: {}; in-flight records may or may not be stored; create a new producer"
)


class ProducerPorts(NamedTuple):
    """The ports that a producer's loop uses."""

    writer: RecordWriter
    source: PlacingSource
    clock: Clock
    tasks: Tasks
    chance: Chance
    log: Log
    traces: PutTraces | None = None


class _Flush(NamedTuple):
    """`epoch`: the last one to wait for; None until the loop has begun the flush."""

    done: Signal
    epoch: int | None = None


class PuttingLoop:
    """Safe for threads. Its tasks begin with the first record, and end after `close`.

    If the decisions raise, which is a fault in sublet, all records whose outcome the program does not know fail with
    it, and so does each later `offer`.
    """

    def __init__(self, rules: ProducerRules, ports: ProducerPorts, tell: Tell) -> None:
        self._rules, self._ports, self._tell = rules, ports, tell
        self._producing = ProducerState(rules, ports.chance)
        self._lock = ports.tasks.lock()
        """Guards `_producing` and the fields below, but `_given_up` has its own lock. `_woken` is set, and `_buffered`
        read, without it.
        """
        self._woken = ports.tasks.signal()
        self._room = ports.tasks.signal()
        self._is_running = self._is_closed = False
        self._looks_at: datetime | None = None
        self._arrived = ArrivalCounter(rules, ports.clock)
        self._buffered = 0
        self._flushes: list[_Flush] = []
        self._unreported: dict[int, QueuedRecord] = {}
        """The records that have left `_arrived` and whose outcome no task has begun to report, each by its id."""
        self._reports = self._lost = 0
        self._failed: ProducerFailed | None = None
        self._listings = ShardListings(ports.source, self._arrived.since)
        self._given_up = GivenUp(ports.clock, ports.tasks, ports.log)

    @property
    def produced(self) -> Produced:
        with self._lock:
            counts = self._producing.produced
            return replace(counts, given_up=counts.given_up + self._lost)

    @property
    def buffered_bytes(self) -> int:
        """How much memory is taken by records that are not known to be in the stream, roughly."""
        return self._buffered

    def offer(
        self, data: bytes, partition_key: str | None, explicit_hash_key: str | None, ticket: object
    ) -> Signal | None:
        """Takes a record that passes `why_not_put`. If the buffer is full, returns a signal that is set when there may
        be room. Raises ProducerClosed and ProducerFailed."""
        record = QueuedRecord.of(
            data, partition_key, explicit_hash_key, arrived_at=self._arrived.since, epoch=0, ticket=ticket
        )
        size, held = record.whole_size, record.held_size
        traces = self._ports.traces
        trace = None if traces is None else traces.current()
        with self._lock:
            if self._is_closed or self._failed is not None:
                self._refuse()
            if self._buffered and self._buffered + held > self._rules.max_buffered_bytes:
                return self._room
            if not self._is_running:
                self._ports.tasks.spawn(partial(self._guard, self._run))
                self._is_running = True
            record.epoch, record.trace = self._producing.epoch, trace
            self._buffered += held
            wakes = self._arrived.add(record, size, self._looks_at)
        if wakes:
            self._woken.set()
        return None

    def _refuse(self) -> NoReturn:
        if self._failed is not None:  # an error of its own for each caller: a traceback grows with each raise
            raise ProducerFailed(str(self._failed)) from self._failed.__cause__
        raise ProducerClosed(CLOSED)

    def flush(self) -> Signal:
        """Lets no record wait for others. The signal is set once the program knows the outcome of all records put so
        far.
        """
        return self._flush(is_last=False)

    def close(self) -> Signal:
        """Flush, and take no more records. The signal is set once the program knows the outcome of all records."""
        return self._flush(is_last=True)

    def _flush(self, *, is_last: bool) -> Signal:
        """Closes under the same lock: the loop ends once it is closed, nothing is buffered, and no flush waits. The
        loop begins the flush: a signal's handler may raise at any line of the caller's thread, which must not hold
        records then.
        """
        done = self._ports.tasks.signal()
        self._guard(partial(self._ask_flush, done, is_last=is_last))
        self._woken.set()
        return done

    def _ask_flush(self, done: Signal, *, is_last: bool) -> None:
        with self._lock:
            self._is_closed = self._is_closed or is_last
            self._flushes.append(_Flush(done))
            if self._failed is not None:
                self._end_flushes()
            elif not self._is_running:  # and so nothing waits in `_arrived`
                self._begin_flushes(self._ports.clock.steady())

    def _begin_flushes(self, now: datetime) -> None:
        """Called with the lock."""
        if all(flush.epoch is not None for flush in self._flushes):
            return
        epoch = self._producing.flush(now)
        self._flushes = [flush if flush.epoch is not None else flush._replace(epoch=epoch) for flush in self._flushes]
        self._end_flushes()

    def failure(self) -> RecordsNotPut | None:
        """See `GivenUp.error`."""
        return self._given_up.error()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._failed is not None:
                    return
                now = self._ports.clock.steady()
                woken = self._woken = self._ports.tasks.signal()
                self._drain(now)
                self._begin_flushes(now)
                plan = self._producing.plan(now)
                settled = self._take_settled()
                places = self._buffered > 0 and self._listings.is_wanted(by_records=plan.wants_placing)
                self._looks_at = at = self._next_look(plan, now, places=places)
                places_now = places and self._listings.begin(now)
                if self._is_closed and not self._buffered and not self._flushes:
                    self._is_running = False
                    return
            if places_now:
                self._begin(self._place)
            if settled:
                self._begin(partial(self._report, settled))
            for call in plan.calls:
                self._begin(partial(self._send, call))
            woken.wait(at - now)

    def _begin(self, work: Callable[[], None]) -> None:
        """Does the work in a task of its own. If the machine is out of threads for now, this thread does it."""
        guarded = partial(self._guard, work)
        try:
            self._ports.tasks.spawn(guarded)
        except RuntimeError:
            guarded()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as fault:  # noqa: BLE001 -- if the thread ended silently, every put would wait for ever
            self._fail(fault)

    def _fail(self, fault: Exception) -> None:
        """The records' futures fail before a flush returns. Only the first fault counts."""
        failed = ProducerFailed(FAILED.format(type(fault).__name__, fault))
        failed.__cause__ = fault
        with self._lock:
            if self._failed is not None:
                return
            self._failed = failed
            records = [*self._unreported.values(), *self._arrived.take()]
            self._unreported = {id(record): record for record in records}
            self._lost, self._buffered = len(records), 0
            self._make_room()
        lost = [SettledRecords(records, failed)] if records else []
        self._given_up.note(lost)
        self._woken.set()
        self._report(lost)
        self._ports.log.error("internal error stopped the producer", problem=type(fault).__name__)

    def _next_look(self, plan: SendPlan, now: datetime, *, places: bool) -> datetime:
        moments = [now + LOOKED_AFTER]
        if plan.look_again_at is not None:
            moments.append(plan.look_again_at)
        if places:
            moments.append(self._listings.next_at)
        return max(min(moments), now)

    def _drain(self, now: datetime) -> None:
        arrived = self._arrived.take()
        self._unreported.update(zip(map(id, arrived), arrived, strict=True))
        self._producing.add(arrived, now)

    def _send(self, call: PutCall) -> None:
        answers = self._answers(call)
        with self._lock:
            if self._failed is not None:
                return
            now = self._ports.clock.steady()
            self._producing.settle(call, answers, now)
            settled = self._take_settled()
        self._woken.set()
        self._report(settled)

    def _answers(self, call: PutCall) -> Sequence[PutRecord | PutRefused] | Exception:
        put = partial(self._ports.writer.put, [entry.stream_record() for entry in call.entries])
        traces = self._ports.traces
        try:
            return put() if traces is None else traces.sent(call, put)
        except Exception as failure:  # noqa: BLE001 -- each record's future raises it
            return failure

    def _take_settled(self) -> list[SettledRecords]:
        """Takes the settled records. Makes room before the program learns of them, because its callbacks may put
        records. Called with the lock.
        """
        settled = self._producing.take_settled()
        if not settled:
            return settled
        self._buffered -= sum(record.held_size for some in settled for record in some.user_records)
        self._make_room()
        self._given_up.note(settled)
        return settled

    def _make_room(self) -> None:
        room, self._room = self._room, self._ports.tasks.signal()
        room.set()

    def _report(self, settled: Sequence[SettledRecords]) -> None:
        with self._lock:
            mine = [some for some in settled if self._claims_report(some)]
            self._reports += 1
        try:
            if mine:
                self._tell(mine)
                self._given_up.log(mine)
        except BaseException as failure:  # noqa: BLE001 -- raised by a callback, and must not end the loop
            self._ports.log.error("a future's callback raised", problem=type(failure).__name__)
        finally:
            self._end_report(mine)

    def _claims_report(self, some: SettledRecords) -> bool:
        """Whether this task has to report these records; asking claims them. False if the loop has failed meanwhile and
        has reported them as failed.
        """
        found = [self._unreported.pop(number, None) for number in map(id, some.user_records)]
        return None not in found

    def _end_report(self, settled: Sequence[SettledRecords]) -> None:
        with self._lock:
            self._reports -= 1
            if self._failed is None:
                self._producing.told(settled)
            self._end_flushes()
            is_last = self._is_closed and not self._buffered
        if is_last:
            self._woken.set()

    def _end_flushes(self) -> None:
        """Ends the flushes that are done. Called with the lock."""
        over = [flush for flush in self._flushes if self._is_over(flush)]
        self._flushes = [flush for flush in self._flushes if flush not in over]
        for flush in over:
            flush.done.set()

    def _is_over(self, flush: _Flush) -> bool:
        if self._failed is not None:
            return not self._unreported and not self._reports
        return flush.epoch is not None and self._producing.is_settled(flush.epoch)

    def _place(self) -> None:
        asked_at = self._ports.clock.steady()
        found = self._listings.look()
        with self._lock:
            if self._failed is not None:
                return
            now = self._ports.clock.steady()
            if isinstance(found, RecordPlacing):
                self._producing.place(found, now, asked_at)
            else:
                self._producing.placing_failed(found)
            self._listings.end(found, now, has_helped=not self._producing.wants_placing)
            settled = self._take_settled()
        self._woken.set()
        self._report(settled)
