"""A producer's loop. Threads and clocks come through the ports, so that tests decide who runs next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from sublet.decisions.outbox import RECORDS_PER_CALL, ProducerRules, QueuedRecord
from sublet.decisions.placing import Placing
from sublet.decisions.producing import Produced, Producing, PutCall, SendPlan, Settled
from sublet.decisions.time_and_chance import Chance
from sublet.errors import ProducerClosed, RecordsNotPut
from sublet.ports import Clock, Log, RecordWriter, Signal, Tasks
from sublet.protocol.records import PutRefused
from sublet.protocol.stream_info import PutRecord
from sublet.putting.placing_source import PlacingSource

Tell = Callable[[Sequence[Settled]], None]
"""Tells the program what came of its records. Called from any of the loop's threads, and without its lock."""

LOOKED_AFTER = timedelta(seconds=60)
"""The longest time that the loop sleeps."""

LISTED_AFTER = timedelta(milliseconds=100)
LISTED_LATEST = timedelta(seconds=2)
"""The shortest and the longest pause between two listings of the shards. A pause is doubled while listings do not help."""

CLOSED = "the producer is closed, and takes no more records; make another one"

LOGGED_EVERY = timedelta(minutes=1)


class Putters(NamedTuple):
    """The ports that a producer's loop uses."""

    writer: RecordWriter
    source: PlacingSource
    clock: Clock
    tasks: Tasks
    chance: Chance
    log: Log


class _Flush(NamedTuple):
    epoch: int
    done: Signal


class PuttingLoop:
    """Safe for threads. Its tasks begin with the first record, and end after `close`."""

    def __init__(self, rules: ProducerRules, putters: Putters, tell: Tell) -> None:
        self._rules, self._putters, self._tell = rules, putters, tell
        self._producing = Producing(rules, putters.chance)
        self._lock = putters.tasks.lock()
        self._woken = putters.tasks.signal()
        self._room = putters.tasks.signal()
        self._is_running = self._is_closed = False
        self._looks_at: datetime | None = None
        self._arrived: list[QueuedRecord] = []
        self._arrived_at = putters.clock.steady()
        self._arrived_bytes = self._buffered = 0
        self._enough = min(rules.aggregation_max_size, rules.max_buffered_bytes // 4)
        self._flushes: list[_Flush] = []
        self._found: Placing | None = None
        self._is_placing = False
        self._place_at, self._place_pause = self._arrived_at, LISTED_AFTER
        self._failures = self._unlogged = 0
        self._first_failure = ""
        self._logged_at: datetime | None = None

    @property
    def produced(self) -> Produced:
        with self._lock:
            return self._producing.produced

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of records are not known to be in the stream."""
        return self._buffered

    def offer(
        self, data: bytes, partition_key: str | None, explicit_hash_key: str | None, ticket: object
    ) -> Signal | None:
        """Takes a record that passes `why_not_put`. If the buffer is full, returns a signal that is set when there may be room.
        Raises ProducerClosed."""
        record = QueuedRecord.of(
            data, partition_key, explicit_hash_key, arrived_at=self._arrived_at, epoch=0, ticket=ticket
        )
        size = record.whole_size
        with self._lock:
            if self._is_closed:
                raise ProducerClosed(CLOSED)
            if self._buffered and self._buffered + size > self._rules.max_buffered_bytes:
                return self._room
            if not self._is_running:
                self._putters.tasks.spawn(self._run)
                self._is_running = True
            wakes = self._note_arrival(size)
            record.arrived_at, record.epoch = self._arrived_at, self._producing.epoch
            self._arrived.append(record)
        if wakes:
            self._woken.set()
        return None

    def _note_arrival(self, size: int) -> bool:
        """Count the record. True if the loop has to be woken for it."""
        self._buffered += size
        self._arrived_bytes += size
        if self._arrived:
            return not len(self._arrived) % RECORDS_PER_CALL or (
                self._arrived_bytes - size < self._enough <= self._arrived_bytes
            )
        self._arrived_at = self._putters.clock.steady()
        due = self._arrived_at + self._rules.record_max_buffered_time
        return self._looks_at is None or self._looks_at > due or self._arrived_bytes >= self._enough

    def flush(self) -> Signal:
        """Lets nothing that was put wait for more. The signal is set once the program knows what came of all of it."""
        return self._flush(is_last=False)

    def close(self) -> Signal:
        """Flush, and take no more records. The signal is set once the program knows what came of all of them."""
        return self._flush(is_last=True)

    def _flush(self, *, is_last: bool) -> Signal:
        """Closes under the same lock: the loop ends once it is closed, nothing is buffered, and no flush waits."""
        with self._lock:
            self._is_closed = self._is_closed or is_last
            done = self._putters.tasks.signal()
            now = self._putters.clock.steady()
            self._drain(now)
            self._flushes.append(_Flush(self._producing.flush(now), done))
            self._end_flushes()
        self._woken.set()
        return done

    def failure(self) -> RecordsNotPut | None:
        """An error about the records that were given up since the last call; None if there were none."""
        with self._lock:
            count, why = self._failures, self._first_failure
            self._failures = 0
        if not count:
            return None
        return RecordsNotPut(f"{count:,} records were given up, the first one because: {why}")

    def _run(self) -> None:
        while True:
            with self._lock:
                now = self._putters.clock.steady()
                woken = self._woken = self._putters.tasks.signal()
                self._drain(now)
                plan = self._producing.plan(now)
                settled = self._take_settled()
                places = self._wants_placing(plan)
                self._looks_at = at = self._next_look(plan, now, places=places)
                places_now = places and self._place_at <= now
                self._is_placing = self._is_placing or places_now
                if self._is_closed and not self._buffered and not self._flushes:
                    self._is_running = False
                    return
            if places_now:
                self._begin(self._place)
            if settled:
                self._begin(partial(self._tell_of, settled))
            for call in plan.calls:
                self._begin(partial(self._send, call))
            woken.wait(at - now)

    def _begin(self, work: Callable[[], None]) -> None:
        """In a task of its own. A machine that is out of threads for now has this one do it."""
        try:
            self._putters.tasks.spawn(work)
        except RuntimeError:
            work()

    def _wants_placing(self, plan: SendPlan) -> bool:
        if self._is_placing or not self._buffered:
            return False
        return plan.wants_placing or (self._found is not None and self._putters.source.is_due(self._found))

    def _next_look(self, plan: SendPlan, now: datetime, *, places: bool) -> datetime:
        moments = [now + LOOKED_AFTER]
        if plan.look_again_at is not None:
            moments.append(plan.look_again_at)
        if places:
            moments.append(self._place_at)
        return max(min(moments), now)

    def _drain(self, now: datetime) -> None:
        arrived, self._arrived = self._arrived, []
        self._arrived_bytes = 0
        self._producing.add(arrived, now)

    def _send(self, call: PutCall) -> None:
        answers = self._answers(call)
        with self._lock:
            now = self._putters.clock.steady()
            self._producing.settle(call, answers, now)
            settled = self._take_settled()
        self._woken.set()
        self._tell_of(settled)

    def _answers(self, call: PutCall) -> Sequence[PutRecord | PutRefused] | Exception:
        try:
            return self._putters.writer.put([entry.stream_record() for entry in call.entries])
        except Exception as failure:  # noqa: BLE001 -- each record's future raises it
            return failure

    def _take_settled(self) -> list[Settled]:
        """Called with the lock. Makes room before the program is told, because it may put records from a callback."""
        settled = self._producing.take_settled()
        if not settled:
            return settled
        self._buffered -= sum(record.whole_size for some in settled for record in some.user_records)
        room, self._room = self._room, self._putters.tasks.signal()
        room.set()
        for some in settled:
            if isinstance(some.outcome, Exception):
                if not self._failures:
                    self._first_failure = f"{some.outcome} ({type(some.outcome).__name__})"
                self._failures += len(some.user_records)
                self._unlogged += len(some.user_records)
        return settled

    def _log_failures(self, settled: Sequence[Settled]) -> None:
        """Without the lock: the program's logging may put its lines with this very producer."""
        why = next((some.outcome for some in settled if isinstance(some.outcome, Exception)), None)
        if why is None:
            return
        with self._lock:
            now = self._putters.clock.steady()
            if self._logged_at is not None and now - self._logged_at < LOGGED_EVERY:
                return
            records, self._unlogged, self._logged_at = self._unlogged, 0, now
        self._putters.log.error("records were given up", records=records, problem=type(why).__name__)

    def _tell_of(self, settled: Sequence[Settled]) -> None:
        if not settled:
            return
        try:
            self._tell(settled)
            self._log_failures(settled)
        except BaseException as failure:  # noqa: BLE001 -- a callback's, which ends nothing here
            self._putters.log.error("a future's callback raised", problem=type(failure).__name__)
        finally:
            with self._lock:
                self._producing.told(settled)
                self._end_flushes()
                is_last = self._is_closed and not self._buffered
            if is_last:
                self._woken.set()

    def _end_flushes(self) -> None:
        """Called with the lock."""
        over = [flush for flush in self._flushes if self._producing.is_settled(flush.epoch)]
        self._flushes = [flush for flush in self._flushes if flush not in over]
        for flush in over:
            flush.done.set()

    def _place(self) -> None:
        found = self._found_placing()
        with self._lock:
            now = self._putters.clock.steady()
            if isinstance(found, Placing):
                self._producing.place(found, now)
                self._found = found
            else:
                self._producing.placing_failed(found)
            self._is_placing = False
            still = self._producing.wants_placing
            self._place_pause = min(self._place_pause * 2, LISTED_LATEST) if still else LISTED_AFTER
            self._place_at = now + self._place_pause
            settled = self._take_settled()
        self._woken.set()
        self._tell_of(settled)

    def _found_placing(self) -> Placing | Exception:
        try:
            return self._putters.source.look(is_doubted=self._found is not None)
        except Exception as failure:  # noqa: BLE001 -- the futures of what waits for it raise it
            return failure
