"""Makes several handler calls at once for one shard: each partition key stays in one lane, in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from sublet.decisions.session.crash_caution import CrashCaution, caution
from sublet.decisions.session.finished_prefix import FinishedPrefix
from sublet.engine.calls.handler_caller import HandlerCaller, SessionCalls
from sublet.engine.calls.lease_batch import Attempts
from sublet.engine.calls.runner import BatchRunner
from sublet.engine.lease.held import HeldLease
from sublet.engine.lease.progress import Progress
from sublet.ports import Signal, Task
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, lane_of, lanes_of
from sublet.protocol.records import UserRecord
from sublet.settings import Settings

CALLS_AHEAD = 256
"""How many calls' records are spread over each lane at once, if there are that many. Lanes then seldom wait for the
longest lane, and the number of records that are finished out of order is bounded.
"""


@dataclass(slots=True)
class ParallelRecords:
    """Records that are handed over in several lanes at once. The checkpoint stays before the first record that is not
    finished.

    lock    guards `prefix`, `limit` and each lane's `done`; any one of them may be read without it. Taken before the
            progress's own lock, and never while a write is made
    limit   a lane that has reached this place stops (None: no limit)
    """

    records: Sequence[UserRecord]
    held: HeldLease
    lock: AbstractContextManager[object]
    lanes: int
    prefix: FinishedPrefix = field(default_factory=FinishedPrefix)
    limit: int | None = None
    of_lanes: list[LaneProgress] = field(default_factory=list)

    def finished_ahead(self, *, as_put: bool) -> FinishedAhead:
        """How far each lane has come. Any thread may call this while the lanes run: what is finished stays finished."""
        up_to: list[Checkpoint | None] = [None] * self.lanes
        for lane in self.of_lanes:
            if (done := lane.done) > 0:
                last = self.records[lane.places[done - 1]]
                up_to[lane_of(last.order_key, self.lanes)] = last.checkpoint
        return FinishedAhead(tuple(up_to), as_put)

    def stop_at(self, place: int) -> None:
        with self.lock:
            self.limit = place if self.limit is None else min(self.limit, place)


@dataclass(slots=True)
class LaneProgress:
    """One lane's progress, as its runner sees it. `places`: where its records are among the spread's."""

    spread: ParallelRecords
    shard: Progress
    places: Sequence[int]
    done: int = 0

    @property
    def finished(self) -> Checkpoint:
        return self.shard.finished

    @property
    def lanes(self) -> int:
        return self.spread.lanes

    @property
    def follows_checkpoint(self) -> bool:
        """True if the first record that is not finished is this lane's, and all before it is written."""
        spread = self.spread
        with spread.lock:
            return self.is_next and self.shard.follows_checkpoint

    @property
    def next_place(self) -> int:
        """The place of its first record that is not finished."""
        return self.places[self.done] if self.done < len(self.places) else len(self.spread.records)

    @property
    def is_next(self) -> bool:
        """True if the first record of all that is not finished is this lane's."""
        prefix = self.spread.prefix
        return self.done < len(self.places) and self.next_place == prefix.length

    @property
    def has_come_to_limit(self) -> bool:
        limit = self.spread.limit
        return limit is not None and self.next_place >= limit

    def begin_call(self, last: Checkpoint, records: int) -> None:
        """The shard's progress notes no call of a lane: several run at the same time."""

    def end_call(self, finished: Checkpoint | None) -> None:
        if finished is not None:
            self.finish(finished)

    def finish(self, to: Checkpoint) -> None:
        spread = self.spread
        with spread.lock:
            done = bisect_right(self.places, to, lo=self.done, key=lambda place: spread.records[place].checkpoint)
            before = prefix = spread.prefix
            for place in self.places[self.done : done]:
                prefix = prefix.finish(place, place + 1)
            spread.prefix, self.done = prefix, done
            if prefix.length > before.length:
                self.shard.finish(spread.records[prefix.length - 1].checkpoint)

    def checkpoint(self, to: Checkpoint) -> bool:
        self.finish(to)
        self.write_if_due()
        return self.shard.written >= to

    def prepare(self, to: Checkpoint, state: bytes) -> bool:
        return self.shard.prepare(to, state)

    def has_been_moved(self) -> bool:
        return self.shard.has_been_moved()

    def write_if_due(self) -> None:
        self.shard.write_if_due()

    def write(self) -> None:
        """Write what this lane has finished, even beyond records that another lane has not finished."""
        spread = self.spread
        with spread.lock:
            is_beyond = self.done > 0 and self.places[self.done - 1] >= spread.prefix.length
        if self.shard.is_unwritten:
            self.shard.write()
        elif is_beyond:
            spread.held.note_ahead()


@dataclass(frozen=True, slots=True)
class LaneStop:
    """A lane's stop signal: set if the session's is, or if the lane has reached the limit. Setting it ends all
    lanes.
    """

    session: Signal
    progress: LaneProgress

    def set(self) -> None:
        self.progress.spread.stop_at(0)

    def is_set(self) -> bool:
        return self.session.is_set() or self.progress.has_come_to_limit

    def wait(self, timeout: timedelta) -> bool:
        return self.session.wait(timeout) or self.progress.has_come_to_limit

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back when the session has to end. A lane that has reached the limit notices it before its next call."""
        return self.session.on_set(callback)


def records_at_once(settings: Settings) -> int:
    """How many records make one batch, or are spread over the lanes at once."""
    calls = settings.parallelization_factor * CALLS_AHEAD if settings.parallelization_factor > 1 else 1
    return settings.batch_size * calls


@dataclass(slots=True)
class ParallelRunner:
    """Runs one batch after another, each in several lanes at once."""

    session: SessionCalls
    caller: HandlerCaller
    progress: Progress
    attempts: Attempts = field(default_factory=Attempts, init=False)

    def handle(self, records: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        """Like BatchRunner.handle. Returns when every lane has ended. If one lane gives up, the others stop at its
        first unfinished record: it then follows the checkpoint, so its attempts can be kept. After a call that hangs,
        the others make no more calls.

        After repeated crashes there is one lane. Otherwise a record that kills the process would cut off the other
        lanes' calls each time, and the checkpoint would never reach it.
        """
        session, caller, progress = self.session, self.caller, self.progress
        tasks, held, settings = session.ports.tasks, session.held, session.settings
        is_careful = caution(held.lease) >= CrashCaution.ALONE
        spread = ParallelRecords(records, held, tasks.lock(), 1 if is_careful else settings.parallelization_factor)
        spread.of_lanes = [LaneProgress(spread, progress, places) for places in lanes_of(records, spread.lanes)]
        runners = [
            BatchRunner(session, HandlerCaller(session, lane, LaneStop(caller.stop, lane), is_lane=True), lane)
            for lane in spread.of_lanes
        ]
        follow = partial(spread.finished_ahead, as_put=not settings.deaggregate)
        no_longer = progress.follow_lanes(follow) if spread.lanes > 1 else None
        started = [
            tasks.spawn(partial(_run_lane, each, of, millis_behind_latest))
            for each, of in zip(runners, spread.of_lanes, strict=True)
        ]
        faults = [fault for task in started if (fault := _fault_of(task)) is not None]
        if no_longer is not None:
            no_longer()
        if faults:
            raise faults[0]
        self.attempts = Attempts()
        for each, lane in zip(runners, spread.of_lanes, strict=True):
            each.caller.is_closed = True
            caller.tally.add(each.caller.tally)
            if lane.is_next:
                self.attempts = each.attempts
        return spread.prefix.length == len(records) and not caller.tally.is_hung


def _fault_of(lane: Task[None]) -> BaseException | None:
    """Waits until the lane has ended. What it raised is raised when the other lanes have ended too."""
    try:
        lane.result()
    except BaseException as fault:  # noqa: BLE001 - see above
        return fault
    return None


def _run_lane(runner: BatchRunner, lane: LaneProgress, millis_behind_latest: int) -> None:
    spread, places, size = lane.spread, lane.places, runner.session.settings.batch_size
    try:
        for start in range(0, len(places), size):
            batch = [spread.records[place] for place in places[start : start + size]]
            if not runner.handle(batch, millis_behind_latest):
                spread.stop_at(0 if runner.caller.tally.is_hung else lane.next_place)
                return
    except BaseException:
        runner.caller.stop.set()
        raise
