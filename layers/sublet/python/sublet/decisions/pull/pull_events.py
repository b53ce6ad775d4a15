"""Events that a pull consumer reports while it goes on, and how it detects a missed heartbeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

SILENCE = timedelta(seconds=2)
"""A service that has answered nothing for this long and fails a single request counts as unreachable."""


class EventKind(StrEnum):
    """What happened. No event ends the consumer."""

    MISSED_HEARTBEAT = "missed heartbeat"
    """Twice idle_heartbeat without a sign of life: AWS answered nothing, or one service answered none of its
    requests.
    """
    DISCONNECTED = "disconnected"
    """Kinesis or DynamoDB is unreachable or fails. Timers and polls pause; afterwards each write's fence checks
    positions.
    """
    RECONNECTED = "reconnected"
    THROTTLED = "throttled"
    """A shard's five calls or 2 MB a second are used up: by us behind the tip, by other readers at it."""
    LEASE_ACQUIRED = "lease acquired"
    LEASE_RELEASED = "lease released"
    """Its shard's buffered and outstanding records are delivered again by the lease's next owner."""
    LEASE_LOST = "lease lost"
    SHARD_ENDED = "shard ended"
    """All records of the shard are acknowledged; its children follow."""
    ACK_WAIT_OVER = "ack wait over"
    """A record was not acknowledged in time, so it is delivered again."""
    DEFINITION_CHANGED = "definition changed"
    """The consumer was updated, in options that this program did not give: they apply when it joins again."""
    CALLBACK_FAILED = "callback failed"
    """The callback of `consume` raised: its record is delivered again after a delay."""
    SLOW_LISTENER = "slow listener"
    """`on_event` was busy for so long that events were dropped."""


@dataclass(frozen=True, slots=True)
class Event:
    """`shard_id`: set if the event concerns one shard. `detail`: text for people; never a record's data."""

    kind: EventKind
    shard_id: str | None = None
    detail: str = ""


class AwsService(StrEnum):
    """A service that a consumer calls. One may be reachable while the other is not."""

    KINESIS = "Kinesis"
    DYNAMODB = "DynamoDB"


class UnansweredCalls(NamedTuple):
    """Unanswered requests to one service, and since when it has not answered any."""

    questions: int
    since: datetime


@dataclass(frozen=True, slots=True)
class SignsOfLife:
    """When AWS last answered, for missed heartbeats and outages.

    last_at      when AWS last answered, or the timer was reset
    unreachable  the services whose last requests failed
    owed         unanswered requests by service
    answered_at  each service's last answer
    """

    last_at: datetime
    unreachable: frozenset[AwsService] = frozenset()
    owed: Mapping[AwsService, UnansweredCalls] = field(default_factory=dict)
    answered_at: Mapping[AwsService, datetime] = field(default_factory=dict)

    def asked(self, service: AwsService, now: datetime) -> SignsOfLife:
        known = self.owed.get(service, UnansweredCalls(0, now))
        return replace(self, owed={**self.owed, service: known._replace(questions=known.questions + 1)})

    def answered(self, service: AwsService, now: datetime) -> tuple[SignsOfLife, EventKind | None]:
        """The service answered. Returns RECONNECTED if that ends an outage."""
        left = self.unreachable - {service}
        after = SignsOfLife(now, left, self._less(service, now), {**self.answered_at, service: now})
        return after, EventKind.RECONNECTED if self.unreachable and not left else None

    def withdrawn(self, service: AwsService, now: datetime) -> SignsOfLife:
        """A request ended without telling whether the service is reachable."""
        return replace(self, owed=self._less(service, self.owed.get(service, UnansweredCalls(0, now)).since))

    def unanswered(
        self, service: AwsService, now: datetime, *, is_last_word: bool
    ) -> tuple[SignsOfLife, EventKind | None]:
        """A request failed. `is_last_word`: after retries. A failure without retries means little while other requests
        are answered.
        """
        after = self.withdrawn(service, now)
        is_silent = now - self.answered_at.get(service, self.last_at) >= SILENCE
        return after.failed(service) if is_last_word or is_silent else (after, None)

    def failed(self, service: AwsService) -> tuple[SignsOfLife, EventKind | None]:
        """The service is unreachable. The timer pauses; DISCONNECTED is reported once per outage."""
        is_first = not self.unreachable
        after = replace(self, unreachable=self.unreachable | {service})
        return after, EventKind.DISCONNECTED if is_first else None

    def look(self, now: datetime, idle_heartbeat: timedelta) -> tuple[SignsOfLife, EventKind | None]:
        """Whether a heartbeat is missed: AWS answers nothing, or one service answers none of its requests. If so,
        restart the timer.
        """
        since = min([self.last_at, *(owed.since for owed in self.owed.values())])
        if self.unreachable or now - since < 2 * idle_heartbeat:
            return self, None
        owed = {service: one._replace(since=now) for service, one in self.owed.items()}
        return replace(self, last_at=now, owed=owed), EventKind.MISSED_HEARTBEAT

    def _less(self, service: AwsService, since: datetime) -> Mapping[AwsService, UnansweredCalls]:
        """The unanswered requests, with one fewer to this service."""
        left = self.owed.get(service, UnansweredCalls(0, since)).questions - 1
        others = {one: owed for one, owed in self.owed.items() if one is not service}
        return {**others, service: UnansweredCalls(left, since)} if left > 0 else others
