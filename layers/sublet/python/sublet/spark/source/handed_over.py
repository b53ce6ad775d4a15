"""Runs one shard's batch in a task, for the retry loop, where positions are Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.session.failure_policy import Answer, Run, SetAside
from sublet.decisions.session.record_filter import Faults
from sublet.decisions.session.window import millis_left
from sublet.engine.calls.set_aside import SettingAside
from sublet.engine.exception_fields import exception_fields
from sublet.errors import BatchItemsFailed, DestinationRefused
from sublet.handler import Batch, Handler
from sublet.ports import Clock, Log
from sublet.protocol.records import UserRecord
from sublet.settings import LogExceptions, Settings
from sublet.spark.read.pace import Sleep

NO_END = timedelta(days=365)
"""A task, unlike a window, has no time limit."""


@dataclass(slots=True)
class TaskBatch:
    """The retry loop's actions. `handled`: records that the handler has finished; `failure`: its last exception."""

    handler: Handler
    stream: str
    shard_id: str
    records: Sequence[UserRecord]
    millis_behind_latest: int
    aside: SettingAside
    sleep: Sleep
    log: Log
    clock: Clock
    settings: Settings
    faults: Faults = field(default_factory=dict)
    handled: int = field(default=0, init=False)
    failure: BaseException | None = field(default=None, init=False)

    def arrived(self, place: int) -> datetime:
        return self.records[place].approximate_arrival_timestamp

    def time_left(self) -> timedelta:
        return NO_END

    def call(self, run: Run) -> Answer:
        """Logs each failure in the executor, without its text, which may contain a record's data."""
        records, done = self.records[run.start : run.end], 0

        def checkpoint(record: UserRecord) -> bool:
            """Counts within the task only; Spark's own checkpoint covers whole batches."""
            nonlocal done
            place = next((place for place, known in enumerate(records, 1) if known is record), None)
            if place is None:
                raise ValueError("batch.checkpoint(record): the record is not one of this batch's records")
            done = max(done, place)
            return False

        began_at = self.clock.steady()
        batch = Batch(
            self.stream,
            self.shard_id,
            records,
            self.millis_behind_latest,
            checkpoint,
            attempt=run.attempts + 1,
            remaining_time_in_millis=lambda: millis_left(began_at, self.clock.steady(), None, self.settings),
        )
        try:
            self._pass_on(batch)
        except Exception as failure:  # noqa: BLE001 - any exception of the user's code
            fields = exception_fields(failure, LogExceptions.FRAMES)
            first = str(records[0].checkpoint)
            self.log.error("handler failed", shard_id=self.shard_id, first=first, attempt=run.attempts + 1, **fields)
            self.failure = failure
            self.handled += done
            return Answer(done, not isinstance(failure, BatchItemsFailed), failure)
        self.handled += run.size
        return Answer(run.size)

    def _pass_on(self, batch: Batch) -> None:
        """Calls the handler, unless a record has a fault."""
        first = batch.records[0]
        if (fault := self.faults.get(first.checkpoint)) is not None:
            raise fault.error(first)
        self.handler.handle(batch)

    def set_aside(self, step: SetAside, last: Answer | None) -> bool:
        return self.aside.put(self.records[step.run.start : step.run.end], step, last)

    def wait(self, lasts: timedelta) -> bool:
        self.sleep(lasts)
        return True

    def give_up(self, why: str) -> None:
        """Fails the task, which Spark runs again."""
        raise self.failure or DestinationRefused(why)
