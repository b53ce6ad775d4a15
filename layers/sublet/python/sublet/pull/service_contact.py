"""Tracks the signs of life in AWS' replies to the engine's own calls, and ends the consumer after a permanent error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.decisions.patience import NOTHING_YET, WORKED, RefusalStreak
from sublet.decisions.pull.pull_events import AwsService, Event, EventKind, SignsOfLife
from sublet.errors import (
    CallFailed,
    CheckpointNotInStream,
    LeaseTableUnavailable,
    ShardNotFound,
    TransientError,
)
from sublet.ports import Clock, Tasks

OF_ONE_SHARD = (ShardNotFound, CheckpointNotInStream)
"""Errors that say nothing of the other shards, so they do not end the consumer."""

READING = "read"
"""The call that shows that the consumer works: from then on no other call is refused for the first time."""


@dataclass(slots=True)
class AwsCall:
    """A call to AWS. `is_answered`: False if it returned without an answer; None if perhaps no call was made."""

    is_answered: bool | None = True


class ServiceContact:
    """The signs of life that AWS has given so far. Thread-safe."""

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        tell: Callable[[Event], None],
        fail: Callable[[BaseException], None],
        patience: timedelta,
        *,
        is_of_several: bool = False,
    ) -> None:
        """`patience`: how long a call that has worked may be refused before the consumer ends. The engine alone would
        not end: a lease's session would give up, and the next tick would start it again. One of several streams that
        refuses, from the start or later, ends nothing while another answers.
        """
        self.tell = tell
        self._clock = clock
        self._fail = fail
        self._patience = patience
        self._is_of_several = is_of_several
        self._lock = tasks.lock()
        """Guards `_signs` and `_refusals`."""
        self._signs = SignsOfLife(clock.steady())
        self._refusals: dict[str, RefusalStreak] = {}

    @contextmanager
    def asked(self, service: AwsService, call: str, *, may_be_refused: bool = False) -> Iterator[AwsCall]:
        """A context manager around a call to AWS. `may_be_refused`: a refusal concerns only a part of the consumer's
        work.
        """
        question = AwsCall()
        self._become(lambda signs, now: (signs.asked(service, now), None))
        try:
            yield question
        except TransientError as problem:
            self._unanswered(service, str(problem), is_last_word=True)
            raise
        except BaseException as fault:
            self._become(lambda signs, now: signs.answered(service, now))
            if not may_be_refused and self._ends(service, call, fault):
                self._fail(fault)
            raise
        if question.is_answered is None:
            self._become(lambda signs, now: (signs.withdrawn(service, now), None))
        elif question.is_answered:
            self._has_worked(call)
            self._become(lambda signs, now: signs.answered(service, now))
        else:
            self._unanswered(service, f"no answer of {service}", is_last_word=False)

    def _has_worked(self, call: str) -> None:
        if self._refusals.get(call) != WORKED:
            with self._lock:
                self._refusals[call] = WORKED

    def _ends(self, service: AwsService, call: str, fault: BaseException) -> bool:
        if not isinstance(fault, CallFailed) or isinstance(fault, OF_ONE_SHARD):
            return False
        now = self._clock.steady()
        with self._lock:
            before = self._refusals.get(call, NOTHING_YET)
            has_worked = before.has_worked or self._refusals.get(READING, NOTHING_YET).has_worked
            has_worked = has_worked or (self._is_of_several and service is AwsService.KINESIS)
            refusals = self._refusals[call] = replace(before, has_worked=has_worked).after(fault, now)
        return refusals.is_over(fault, now, self._patience)

    def _unanswered(self, service: AwsService, why: str, *, is_last_word: bool) -> None:
        self._become(lambda signs, now: signs.unanswered(service, now, is_last_word=is_last_word), why)

    def failed(self, problem: TransientError) -> None:
        """Note that a service could not be reached while joining the group."""
        service = AwsService.DYNAMODB if isinstance(problem, LeaseTableUnavailable) else AwsService.KINESIS
        self._become(lambda signs, _: signs.failed(service), str(problem))

    def look(self, idle_heartbeat: timedelta) -> None:
        """Send an event if there has been no sign of life for `idle_heartbeat`."""
        owing = ", ".join(self._signs.owed)
        self._become(lambda signs, now: signs.look(now, idle_heartbeat), f"waiting for {owing}" if owing else "")

    def _become(
        self,
        change: Callable[[SignsOfLife, datetime], tuple[SignsOfLife, EventKind | None]],
        detail: str = "",
    ) -> None:
        with self._lock:
            self._signs, kind = change(self._signs, self._clock.steady())
        if kind is not None:
            self.tell(Event(kind, detail=detail))
