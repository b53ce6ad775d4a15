"""What a pull consumer is told of and goes on after, and how it is known that it lives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum


class EventKind(StrEnum):
    """What happened. None of them ends anything."""

    MISSED_HEARTBEAT = "missed heartbeat"
    """Twice idle_heartbeat without a sign of life: no poll was answered, no read of the lease table, and no write to it."""
    DISCONNECTED = "disconnected"
    """AWS cannot be reached. Timers and polls pause; positions are checked on return, by the fence of each write."""
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


@dataclass(frozen=True, slots=True)
class SignsOfLife:
    """last_at      when AWS last answered, or the timer was set anew
    unreachable  the services that could not be reached when they were asked last
    """

    last_at: datetime
    unreachable: frozenset[Service] = frozenset()

    def answered(self, service: Service, now: datetime) -> tuple[SignsOfLife, EventKind | None]:
        """It answered something. The end of an outage is told."""
        left = self.unreachable - {service}
        return SignsOfLife(now, left), EventKind.RECONNECTED if self.unreachable and not left else None

    def failed(self, service: Service) -> tuple[SignsOfLife, EventKind | None]:
        """It could not be reached. The timer pauses; told once."""
        is_first = not self.unreachable
        return replace(
            self, unreachable=self.unreachable | {service}
        ), EventKind.DISCONNECTED if is_first else None

    def look(self, now: datetime, idle_heartbeat: timedelta) -> tuple[SignsOfLife, EventKind | None]:
        """Whether a heartbeat is missed; if so, the timer begins anew."""
        if self.unreachable or now - self.last_at < 2 * idle_heartbeat:
            return self, None
        return replace(self, last_at=now), EventKind.MISSED_HEARTBEAT
