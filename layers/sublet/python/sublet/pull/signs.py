"""Tracks the signs of life in AWS' replies to the engine's own calls, and ends the consumer after a permanent error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.pull_events import Event, EventKind, Service, SignsOfLife
from sublet.errors import (
    LeaseTableAccessDenied,
    LeaseTableNotFound,
    LeaseTableUnavailable,
    StreamAccessDenied,
    StreamNotFound,
    TransientError,
)
from sublet.ports import Clock, Tasks

FINAL = (LeaseTableNotFound, LeaseTableAccessDenied, StreamNotFound, StreamAccessDenied)
"""Errors that end the consumer: it was deleted, its stream was deleted, or access is denied. The engine alone would not end: the
lease's session would give up, and the next tick would start it again.
"""


@dataclass(slots=True)
class Question:
    """A call to AWS. `is_answered`: False if it returned without an answer; None if perhaps no call was made."""

    is_answered: bool | None = True


class Signs:
    """The signs of life that AWS has given so far. Thread-safe."""

    def __init__(
        self, clock: Clock, tasks: Tasks, tell: Callable[[Event], None], fail: Callable[[BaseException], None]
    ) -> None:
        self.tell = tell
        self._clock = clock
        self._fail = fail
        self._lock = tasks.lock()
        """Guards `_signs`."""
        self._signs = SignsOfLife(clock.steady())

    @contextmanager
    def asked(self, service: Service, *, may_be_denied: bool = False) -> Iterator[Question]:
        """A context manager around a call to AWS."""
        question = Question()
        self._become(lambda signs, now: (signs.asked(service, now), None))
        try:
            yield question
        except TransientError as problem:
            self._unanswered(service, str(problem), is_last_word=True)
            raise
        except BaseException as fault:
            self._become(lambda signs, now: signs.answered(service, now))
            if isinstance(fault, FINAL) and not (may_be_denied and isinstance(fault, StreamAccessDenied)):
                self._fail(fault)
            raise
        if question.is_answered is None:
            self._become(lambda signs, now: (signs.withdrawn(service, now), None))
        elif question.is_answered:
            self._become(lambda signs, now: signs.answered(service, now))
        else:
            self._unanswered(service, f"no answer of {service}", is_last_word=False)

    def _unanswered(self, service: Service, why: str, *, is_last_word: bool) -> None:
        self._become(lambda signs, now: signs.unanswered(service, now, is_last_word=is_last_word), why)

    def failed(self, problem: TransientError) -> None:
        """Note that a service could not be reached while joining the group."""
        service = Service.DYNAMODB if isinstance(problem, LeaseTableUnavailable) else Service.KINESIS
        self._become(lambda signs, _: signs.failed(service), str(problem))

    def look(self, idle_heartbeat: timedelta) -> None:
        """Send an event if there has been no sign of life for `idle_heartbeat`."""
        owing = ", ".join(self._signs.owed)
        self._become(
            lambda signs, now: signs.look(now, idle_heartbeat), f"waiting for {owing}" if owing else ""
        )

    def _become(
        self,
        change: Callable[[SignsOfLife, datetime], tuple[SignsOfLife, EventKind | None]],
        detail: str = "",
    ) -> None:
        with self._lock:
            self._signs, kind = change(self._signs, self._clock.steady())
        if kind is not None:
            self.tell(Event(kind, detail=detail))
