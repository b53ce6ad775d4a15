"""Gives records to the failure destination, and logs the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sublet.decisions.session.failure_policy import Answer, SetAside
from sublet.engine.exception_fields import exception_text, frames_of
from sublet.errors import DestinationRefused
from sublet.metric_names import Metric
from sublet.ports import FailureDestination, Log
from sublet.protocol.failure_document import Failure, SetAsideBatch
from sublet.protocol.records import UserRecord
from sublet.settings import FailureDetails, Settings


@dataclass(frozen=True, slots=True)
class SettingAside:
    """Sets aside one shard's records. `holder`: the lease's holder, as its row names it."""

    destination: FailureDestination | None
    log: Log
    count: Callable[[Metric, float], None]
    now: Callable[[], datetime]
    settings: Settings
    stream: str
    shard_id: str
    holder: str

    def put(self, records: Sequence[UserRecord], step: SetAside, last: Answer | None) -> bool:
        """True if the destination has accepted them all. A refusal shows in the log, a metric and an alarm.

        `last`: the result of the last call that had them, perhaps with others that have been split off since.
        """
        attempts = max(step.run.attempts, 0 if last is None else 1)
        failure = None if last is None else last.failure
        has_raised = attempts > 0 if last is None else last.has_raised
        batch = SetAsideBatch(
            application=self.settings.application,
            stream=self.stream,
            stream_arn=self.settings.stream_arn,
            shard_id=self.shard_id,
            records=tuple(records),
            condition=step.condition,
            attempts=attempts,
            at=self.now(),
            holder=self.holder,
            handler=self.settings.handler,
            failure=described(failure, self.settings),
            has_raised=has_raised,
        )
        fields = {
            "shard_id": self.shard_id,
            "first": str(records[0].checkpoint),
            "last": str(records[-1].checkpoint),
            "records": len(records),
            "condition": step.condition.value,
            "why": step.why,
        }
        try:
            self._store(batch)
        except Exception as problem:  # noqa: BLE001 - an expired token, a bug: in any case the records wait
            self.count(Metric.DESTINATION_REFUSALS, 1)
            self.log.error(
                "failure destination refused records; will try again",
                **fields,
                error=type(problem).__name__,
                problem=str(problem),
            )
            return False
        self.count(Metric.RECORDS_SET_ASIDE, len(records))
        self.log.error("records set aside", **fields)
        return True

    def _store(self, batch: SetAsideBatch) -> None:
        if self.destination is None:
            raise DestinationRefused("there is no failure destination: give the setting on_failure")
        self.destination.put(batch)


def described(failure: BaseException | None, settings: Settings) -> Failure | None:
    """What the failure document says of the handler's exception, by the setting on_failure_details."""
    if failure is None:
        return None
    text = exception_text(failure) if settings.on_failure_details is FailureDetails.FULL else None
    return Failure(type(failure).__name__, frames_of(failure), text)
