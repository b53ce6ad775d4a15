"""One batch of a lease: how the retry loop acts on it, and what the handler can do with it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from sublet.decisions.session.failure_policy import Answer, Run, SetAside, is_noted_before
from sublet.decisions.session.record_filter import RecordFault
from sublet.decisions.session.window import millis_left
from sublet.engine.calls.call_limits import HandlerCall
from sublet.engine.calls.handler_caller import BatchProgress, HandlerCaller, SessionCalls
from sublet.engine.lease.held import HeldLease
from sublet.errors import BatchItemsFailed
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.protocol.lease import AttemptedRecords, Lease
from sublet.protocol.lease_writes import heartbeat
from sublet.protocol.records import UserRecord

if TYPE_CHECKING:
    from sublet.engine.calls.set_aside import SettingAside


class Attempts(NamedTuple):
    """How often the next records have failed, in earlier windows too. `tried`: which records these are."""

    times: int = 0
    tried: AttemptedRecords | None = None

    def note(self, held: HeldLease, progress: BatchProgress) -> None:
        """Write them to the lease's row for its next session, unless the row has them already, or another writer has
        moved its position: the records need not follow it then.
        """
        moves = held.moves
        if self._is_new(held.lease) and progress.follows_checkpoint and not progress.has_been_moved():
            held.write(partial(heartbeat, attempts=self.times, tried=self.tried), unmoved_since=moves)

    def _is_new(self, known: Lease) -> bool:
        """The row may hold as many attempts of earlier records, which have gone since: past retention, say."""
        if not self.times:
            return self.tried not in (None, known.tried)
        is_of_earlier = bool(self.tried and known.tried and known.tried.up_to < self.tried.up_to)
        return self.times != known.attempts or is_of_earlier


@dataclass(slots=True)
class LeaseBatch:
    """The retry loop's actions (`retry_loop.Acts`) on a batch of a lease, or of one lane of it."""

    session: SessionCalls
    caller: HandlerCaller
    progress: BatchProgress
    records: Sequence[UserRecord]
    millis_behind_latest: int

    def arrived(self, place: int) -> datetime:
        return self.records[place].approximate_arrival_timestamp

    def tried(self, run: Run) -> AttemptedRecords:
        return AttemptedRecords(self.records[run.end - 1].checkpoint, self.progress.lanes)

    def time_left(self) -> timedelta:
        return self.session.time_left()

    def call(self, run: Run) -> Answer | None:
        session, caller, progress = self.session, self.caller, self.progress
        slots, by_hand = session.guard.slots, session.settings.is_checkpointed_by_hand
        if not slots.take(caller.stop):
            return None
        try:
            if caller.tally.is_hung or not self._may_call() or not self._is_noted(run):
                return None
            is_whole = run.size == len(self.records)
            records = self.records if is_whole else self.records[run.start : run.end]
            first, last, lease = records[0].checkpoint, records[-1].checkpoint, session.held.lease
            call = HandlerCall(
                lease.lease_key, lease.shard_id, "handle", first, last, len(records), attempt=run.attempts + 1
            )
            handed = HandedBatch(session, caller, progress, records, call)
            work = partial(session.handler.handle, handed.batch(self.millis_behind_latest))
            if session.faults and (fault := session.faults.get(first)) is not None:
                work = partial(_fail, fault, records[0])
            progress.begin_call(last, len(records))
            has_returned = caller.make(call, work, records)
            progress.end_call(last if has_returned and not by_hand else None)
        finally:
            slots.give()
        if not has_returned:
            session.ports.metrics.put(Metric.HANDLER_ATTEMPTS, call.attempt, shard_id=call.shard_id)
            if by_hand:  # the handler may have checkpointed by position
                done = bisect_right(records, progress.finished, key=attrgetter("checkpoint"))
                call.finished = max(call.finished, done)
        caller.tally.handled += call.finished
        if not is_whole:
            progress.write_if_due()
        if call.is_held_up and not call.finished:
            return None  # this does not count as an attempt
        has_raised = not has_returned and not isinstance(call.failure, BatchItemsFailed)  # ESM splits none for those
        return Answer(call.finished, has_raised, call.failure)

    def set_aside(self, step: SetAside, last: Answer | None) -> bool | None:
        """Set aside first, then checkpoint past. A crash in between sets them aside twice, and loses nothing."""
        if not self._may_call():
            return None
        records, progress = self.records[step.run.start : step.run.end], self.progress
        if not self._setting_aside().put(records, step, last):
            return False
        progress.finish(records[-1].checkpoint)
        self.caller.succeeded()
        progress.write()
        return True

    def wait(self, lasts: timedelta) -> bool:
        caller = self.caller
        return not caller.tally.is_hung and not caller.stop.wait(lasts)

    def give_up(self, why: str) -> None:  # noqa: ARG002 - the log has each failure
        self.caller.tally.retries_exhausted = True

    def _may_call(self) -> bool:
        session, stop = self.session, self.caller.stop
        if stop.is_set() or session.time_left() <= timedelta(0) or not session.held.confirm():
            return False
        return not stop.is_set() and not self.progress.has_been_moved()  # confirming may have shown either

    def _is_noted(self, run: Run) -> bool:
        """Write the attempt to the row if the call may end the process. False if the lease turns out to be lost."""
        held = self.session.held
        if is_noted_before(run, held.lease.crashes, self.session.settings):
            Attempts(run.attempts + 1, self.tried(run)).note(held, self.progress)
            return not held.is_lost
        return True

    def _setting_aside(self) -> SettingAside:
        from sublet.engine.calls.set_aside import SettingAside  # noqa: PLC0415 - no cold start needs it

        session = self.session
        ports, settings, lease = session.ports, session.settings, session.held.lease
        shard_id = lease.shard_id
        return SettingAside(
            ports.destination,
            ports.log,
            partial(ports.metrics.put, shard_id=shard_id),
            ports.clock.now,
            settings,
            settings.stream,
            shard_id,
            lease.holder or "",
        )


@dataclass(slots=True)
class HandedBatch:
    """What the handler can do with a batch that it was given in one call: the functions of its `Batch`."""

    session: SessionCalls
    caller: HandlerCaller
    progress: BatchProgress
    records: Sequence[UserRecord]
    call: HandlerCall
    _places: dict[int, int] = field(default_factory=dict, init=False)
    """The records' places by their ids, once one is asked for."""

    def batch(self, millis_behind_latest: int) -> Batch:
        call, settings = self.call, self.session.settings
        return Batch(
            settings.stream,
            call.shard_id,
            self.records,
            millis_behind_latest,
            self.checkpoint,
            settings.stream_arn,
            call.attempt,
            self.remaining_time_in_millis,
            self.prepare_checkpoint,
            self.caller.checkpoint_at,
        )

    def checkpoint(self, record: UserRecord) -> bool:
        call = self.call
        call.finished = max(call.finished, self._place_of(record, "checkpoint(record)") + 1)
        return self.caller.checkpoints_count and self.progress.checkpoint(record.checkpoint)

    def prepare_checkpoint(self, record: UserRecord, state: bytes) -> bool:
        self._place_of(record, "prepare_checkpoint(record, state)")
        return self.caller.checkpoints_count and self.progress.prepare(record.checkpoint, state)

    def remaining_time_in_millis(self) -> int:
        session, stop = self.session, self.caller.stop
        if stop.is_set():
            return 0
        now = session.ports.clock.steady()
        return millis_left(self.call.began_at or now, now, session.deadline, session.settings)

    def _place_of(self, record: UserRecord, what: str) -> int:
        self.caller.refuse_if_hung()
        if not self._places:
            self._places = {id(known): index for index, known in enumerate(self.records)}
        if id(record) not in self._places:
            raise ValueError(f"batch.{what}: the record is not one of this batch's records")
        return self._places[id(record)]


def _fail(fault: RecordFault, record: UserRecord) -> None:
    """The call of a record that cannot be handed over: it fails with what the record's content raised."""
    raise fault.error(record)
