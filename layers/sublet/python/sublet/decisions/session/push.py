"""What a reader by push does next: subscribe, listen, wait, poll instead, or accept that the shard has ended.

One subscription (SubscribeToShard) lasts five minutes, then the caller subscribes again. A second subscription of the
same consumer to the same shard is refused for five seconds after a successful one, and then takes over: the first ends
with ResourceInUseException. Public source: SubscribeToShard in Amazon Kinesis' API reference.

Times are of the steady clock.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sublet.decisions.session.read_position import ReadPosition, after
from sublet.decisions.time_and_chance import Chance
from sublet.protocol.shard import ChildShard, Shard

LASTS = timedelta(minutes=5)
"""Kinesis: how long a subscription lasts."""

RENEWED_EARLIER = timedelta(minutes=1)
"""A subscription is renewed up to this much before its end, by chance. Otherwise subscriptions that began together,
when a process started, would be renewed together.
"""

TAKEN_OVER_AFTER = timedelta(seconds=5)
"""Kinesis: how long after a successful call another one is refused."""

ASKED_AGAIN_AFTER = timedelta(seconds=1)
"""Kinesis: one call a second for each consumer and shard. While another subscription is younger than five seconds, a
call each second does no harm, and takes over as soon as possible.
"""

WAITS_AT_MOST = timedelta(seconds=30)
"""The longest pause between calls that keep failing."""

GIVES_WAY_FOR = timedelta(seconds=20)
"""How long a reader waits after another subscription has taken over. Its lease has probably been lost, which two
heartbeats show. Without the pause, two workers would take the shard from each other every five seconds.
"""

SILENCE_MAX = timedelta(seconds=60)
"""KCL's figure. Idle shards get an empty event every few seconds, so a subscription that is silent for this long is
dead.
"""

LIVED_LONG = timedelta(seconds=5)
"""A subscription that ends sooner and without an event is a failed call: the next one waits."""

_BITS = 10


class PushEnd(StrEnum):
    """Why a subscription ended, or did not begin. The position is never lost."""

    LAPSED = "its five minutes were over"
    TAKEN_OVER = "another subscription took over"
    IN_USE = "another subscription is younger than five seconds"
    CUT = "the connection was lost"
    SILENT = "nothing was heard for a minute"
    REFUSED = "the service failed or throttled the call"
    NOT_AN_END = "the event said that the shard has ended, but the listing of shards does not"
    NO_CONSUMER = "the consumer is not registered"


class PushAction(StrEnum):
    SUBSCRIBE = "subscribe"
    LISTEN = "listen"
    WAIT = "wait"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class PushStep:
    """What to do next and why. `until`: for how long at most; None for an act that takes no time."""

    act: PushAction
    until: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """What one reader knows about its subscription.

    position   where the next subscription begins: where the reader was opened, later the last event's continuation
    since      when the current subscription began; None: there is none
    renew_at   when to replace it
    heard_at   when it was last known to be alive, plus the time since then in which the reader did not listen
    wait_until no call before this
    failures   in a row
    ended      why the last one ended
    """

    position: ReadPosition
    since: datetime | None = None
    renew_at: datetime | None = None
    heard_at: datetime | None = None
    wait_until: datetime | None = None
    failures: int = 0
    has_event: bool = False
    ended: PushEnd | None = None

    def begun(self, now: datetime, chance: Chance) -> SubscriptionState:
        """The state after a successful call."""
        renew_at = now + LASTS - RENEWED_EARLIER * _drawn(chance)
        return replace(self, since=now, renew_at=renew_at, heard_at=now, wait_until=None, has_event=False, ended=None)

    def resumed(self, away: timedelta) -> SubscriptionState:
        """The reader listens again after it was away for this long, which does not count as silence."""
        return self if self.heard_at is None else replace(self, heard_at=self.heard_at + away)

    def moved(self, continuation: str, now: datetime) -> SubscriptionState:
        """The state after an event. An empty one has a continuation too, and moves the position through a stretch
        without records.
        """
        return replace(self, position=after(continuation), heard_at=now, failures=0, has_event=True)

    def put_off(self, now: datetime, chance: Chance) -> SubscriptionState:
        """A renewal was refused, and the subscription that it was to replace still lives: try later, or when it
        ends.
        """
        return replace(self, renew_at=now + TAKEN_OVER_AFTER * (1 + _drawn(chance)))

    def over(self, end: PushEnd, now: datetime, chance: Chance) -> SubscriptionState:
        """After a subscription has ended, or a call was refused. The position stays."""
        has_failed = self._is_failure(end, now)
        failures = self.failures + 1 if has_failed else 0
        pause = _pause(end, failures, chance)
        return replace(
            self,
            since=None,
            renew_at=None,
            heard_at=None,
            failures=failures,
            ended=end,
            wait_until=now + pause if pause else None,
        )

    def _is_failure(self, end: PushEnd, now: datetime) -> bool:
        if end in (PushEnd.LAPSED, PushEnd.CUT):
            return not self.has_event and (self.since is None or now - self.since < LIVED_LONG)
        return end not in (PushEnd.IN_USE, PushEnd.TAKEN_OVER)


def next_step(known: SubscriptionState, now: datetime) -> PushStep:
    if known.ended is PushEnd.NO_CONSUMER:
        return PushStep(PushAction.POLL, why=known.ended)
    if known.since is None:
        if known.wait_until is not None and now < known.wait_until:
            return PushStep(PushAction.WAIT, known.wait_until, known.ended or "")
        return PushStep(PushAction.SUBSCRIBE, why=known.ended or "not subscribed yet")
    assert known.renew_at is not None, "each subscription has a time at which it is renewed"
    assert known.heard_at is not None, "a subscription was known to be alive when it began"
    if now >= known.renew_at:
        return PushStep(PushAction.SUBSCRIBE, why=PushEnd.LAPSED)
    return PushStep(PushAction.LISTEN, min(known.renew_at, known.heard_at + SILENCE_MAX))


def is_silent(known: SubscriptionState, now: datetime) -> bool:
    """Whether to give up the subscription: the reader has listened for a minute without any event."""
    return known.heard_at is not None and now - known.heard_at >= SILENCE_MAX


class NoContinuation(StrEnum):
    """What an event without a continuation means."""

    SHARD_ENDED = "the event names the shard's children, and the listing says that it is closed"
    STILL_OPEN = "the listing says that it is open"
    ASK_BY_POLLS = "only a poll can tell whether records follow"


def ending(shard_id: str, told: Collection[ChildShard], listed: Collection[Shard]) -> NoContinuation:
    """Whether the shard has ended, by the children that the event names and by the listing.

    An event without a continuation may be a fault (awslabs/amazon-kinesis-client#1744). If it names no children, they
    may be past retention, or there may be more records; and a listing may not show a new shard yet.
    """
    shard = next((each for each in listed if each.shard_id == shard_id), None)
    if shard is not None and shard.is_open:
        return NoContinuation.STILL_OPEN
    return NoContinuation.SHARD_ENDED if shard is not None and told else NoContinuation.ASK_BY_POLLS


def _pause(end: PushEnd, failures: int, chance: Chance) -> timedelta:
    """How long to wait before the next call: up to a quarter longer by chance, so that workers do not call in step."""
    later = 1 + _drawn(chance) / 4
    if end is PushEnd.TAKEN_OVER:
        return GIVES_WAY_FOR * later
    if end is PushEnd.IN_USE:
        return ASKED_AGAIN_AFTER * later
    return min(ASKED_AGAIN_AFTER * (1 << min(failures - 1, 5)), WAITS_AT_MOST) * later if failures else timedelta(0)


def _drawn(chance: Chance) -> float:
    return chance.getrandbits(_BITS) / (1 << _BITS)
