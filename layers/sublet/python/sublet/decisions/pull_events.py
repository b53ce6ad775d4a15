"""What a pull consumer is told of and goes on after, and how it is known that it lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

SILENCE = timedelta(seconds=2)
"""A service that has answered nothing for so long, and fails a question that is asked once, cannot be reached."""


class EventKind(StrEnum):
    """What happened. None of them ends anything."""

    MISSED_HEARTBEAT = "missed heartbeat"
    """Twice idle_heartbeat without a sign of life: AWS answered nothing, or one service nothing of what it was asked."""
    DISCONNECTED = "disconnected"
    """Kinesis or DynamoDB cannot be reached, or fails. Timers and polls pause; on return each write's fence checks positions."""
    RECONNECTED = "reconnected"
    THROTTLED = "throttled"
    """A shard's five calls or 2 MB a second are used up: by us behind the tip, by other readers at it."""
    LEASE_ACQUIRED = "lease acquired"
    LEASE_RELEASED = "lease released"
    """What of its shard was buffered or out comes again, to whoever has the lease next."""
    LEASE_LOST = "lease lost"
    SHARD_ENDED = "shard ended"
    """All of it is acknowledged; its children follow."""
    ACK_WAIT_OVER = "ack wait over"
    """Nothing was said of a record in time: it comes again."""
    DEFINITION_CHANGED = "definition changed"
    """The consumer was updated, in nothing that this program was given: it goes by it when it joins again."""
    CALLBACK_FAILED = "callback failed"
    """A consume's callback raised: its record comes again after a while."""
    SLOW_LISTENER = "slow listener"
    """`on_event` was busy for so long that events were left out."""


@dataclass(frozen=True, slots=True)
class Event:
    """`shard_id`: where it is of one shard. `detail`: for a reader; never a record's data."""

    kind: EventKind
    shard_id: str | None = None
    detail: str = ""


class Service(StrEnum):
    """Whom a consumer asks. One may be there while the other is not."""

    KINESIS = "Kinesis"
    DYNAMODB = "DynamoDB"


class Owed(NamedTuple):
    """Questions of one service that are not answered yet, and since when it has answered none."""

    questions: int
    since: datetime


@dataclass(frozen=True, slots=True)
class SignsOfLife:
    """last_at      when AWS last answered, or the timer was set anew
    unreachable  the services that could not be reached when they were asked last
    owed         what is under way of each
    answered_at  by each, for the last time
    """

    last_at: datetime
    unreachable: frozenset[Service] = frozenset()
    owed: Mapping[Service, Owed] = field(default_factory=dict)
    answered_at: Mapping[Service, datetime] = field(default_factory=dict)

    def asked(self, service: Service, now: datetime) -> SignsOfLife:
        known = self.owed.get(service, Owed(0, now))
        return replace(self, owed={**self.owed, service: known._replace(questions=known.questions + 1)})

    def answered(self, service: Service, now: datetime) -> tuple[SignsOfLife, EventKind | None]:
        """It answered something. The end of an outage is told."""
        left = self.unreachable - {service}
        after = SignsOfLife(now, left, self._less(service, now), {**self.answered_at, service: now})
        return after, EventKind.RECONNECTED if self.unreachable and not left else None

    def withdrawn(self, service: Service, now: datetime) -> SignsOfLife:
        """A question tells nothing."""
        return replace(self, owed=self._less(service, self.owed.get(service, Owed(0, now)).since))

    def unanswered(
        self, service: Service, now: datetime, *, is_last_word: bool
    ) -> tuple[SignsOfLife, EventKind | None]:
        """A question came to nothing. `is_last_word`: it was asked again and again; one that is asked once tells little while
        others are answered.
        """
        after = self.withdrawn(service, now)
        is_silent = now - self.answered_at.get(service, self.last_at) >= SILENCE
        return after.failed(service) if is_last_word or is_silent else (after, None)

    def failed(self, service: Service) -> tuple[SignsOfLife, EventKind | None]:
        """It could not be reached. The timer pauses; told once."""
        is_first = not self.unreachable
        after = replace(self, unreachable=self.unreachable | {service})
        return after, EventKind.DISCONNECTED if is_first else None

    def look(self, now: datetime, idle_heartbeat: timedelta) -> tuple[SignsOfLife, EventKind | None]:
        """Whether a heartbeat is missed: AWS answers nothing, or one service nothing that it was asked. If so, the timer begins
        anew."""
        since = min([self.last_at, *(owed.since for owed in self.owed.values())])
        if self.unreachable or now - since < 2 * idle_heartbeat:
            return self, None
        owed = {service: one._replace(since=now) for service, one in self.owed.items()}
        return replace(self, last_at=now, owed=owed), EventKind.MISSED_HEARTBEAT

    def _less(self, service: Service, since: datetime) -> Mapping[Service, Owed]:
        """One question less."""
        left = self.owed.get(service, Owed(0, since)).questions - 1
        others = {one: owed for one, owed in self.owed.items() if one is not service}
        return {**others, service: Owed(left, since)} if left > 0 else others
