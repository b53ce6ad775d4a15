"""A batch that is handed over: the acts of its course, by a lease's handler calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sublet.decisions.failure_policy import Answer, Run, SetAside, is_noted_before
from sublet.engine.handler_calls import HandlerCall
from sublet.errors import BatchItemsFailed
from sublet.protocol.lease import Tried
from sublet.protocol.records import UserRecord

if TYPE_CHECKING:
    from sublet.engine.handling import Handling
    from sublet.engine.setting_aside import SettingAside


@dataclass(slots=True)
class HandedOver:
    """The acts of a batch's course."""

    handling: Handling
    records: Sequence[UserRecord]
    millis_behind_latest: int

    def arrived(self, place: int) -> datetime:
        return self.records[place].approximate_arrival_timestamp

    def tried(self, run: Run) -> Tried:
        return Tried(self.records[run.end - 1].checkpoint, self.handling.progress.lanes)

    def time_left(self) -> timedelta:
        return self.handling.deadline - self.handling.ports.clock.steady()

    def call(self, run: Run) -> Answer | None:
        handling, records = self.handling, self.records
        with handling.calls.slots:
            if handling.is_hung or not handling.may_call():
                return None
            if is_noted_before(run, handling.held.lease.crashes, handling.settings):
                handling.note_attempts(run.attempts + 1, self.tried(run))
                if handling.held.is_lost:
                    return None
            called = records if run.size == len(records) else records[run.start : run.end]
            made = handling.call(called, self.millis_behind_latest, run.attempts + 1)
        handling.handled += made.finished
        if run.size < len(records):
            handling.progress.write_if_due()
        if made.is_held_up and not made.finished:
            return None  # no attempt of its own
        return Answer(made.finished, _has_raised(made), made.failure)

    def set_aside(self, step: SetAside, last: Answer | None) -> bool | None:
        """Set aside first, then checkpoint past: a crash in between sets aside twice, and loses nothing."""
        handling, run = self.handling, step.run
        if not handling.may_call():
            return None
        records = self.records[run.start : run.end]
        if not self._setting_aside().put(records, step, last):
            return False
        handling.progress.finish(records[-1].checkpoint)
        handling.progress.write()
        return True

    def _setting_aside(self) -> SettingAside:
        from sublet.engine.setting_aside import SettingAside  # noqa: PLC0415 - no cold start needs it

        handling = self.handling
        ports, settings, lease = handling.ports, handling.settings, handling.held.lease
        return SettingAside(
            ports.destination, ports.log, ports.metrics.put, ports.clock.now, settings, settings.stream,
            lease.shard_id, lease.holder or "",
        )  # fmt: skip

    def wait(self, lasts: timedelta) -> bool:
        handling = self.handling
        return not handling.is_hung and not handling.stop.wait(lasts)

    def give_up(self, why: str) -> None:  # noqa: ARG002 - the log has each failure
        self.handling.retries_exhausted = True


def _has_raised(call: HandlerCall) -> bool:
    """Or hung. What it returned and named as failed is no such thing: ESM splits no batch for that."""
    return not call.has_returned and not isinstance(call.failure, BatchItemsFailed)
