"""The status of each shard, the trend of its lag, and when it will have caught up.

The rules and their order are Burrow's (core/internal/evaluator/caching.go, calculatePartitionStatus), with lag in time
instead of a number of messages. There are no thresholds: a shard is compared with its own last ten observations.

What the row says now comes before what ten observations suggest: that the handler fails, that owners die, that the
owner is gone, and since when a record waits.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

from sublet.decisions.manager.unread_shards import HELD_CAUGHT_UP_LATELY
from sublet.decisions.session.lag import LENGTH, PACE
from sublet.decisions.session.read_position import is_unopened
from sublet.decisions.status.lease_history import (
    History,
    LagObservation,
    again_since,
    believed_for,
    is_caught_up,
    nothing_waited_at,
    was_caught_up_since,
)
from sublet.errors import HandlerOverdue
from sublet.protocol.checkpoint import LATEST
from sublet.protocol.control import Pause
from sublet.protocol.lease import Lease, Position

ENOUGH = LENGTH // 2
"""How many observations it takes: with fewer, a shard that lags gets no verdict (Burrow's `minimum-complete`)."""

WINDOW = LENGTH * PACE
"""The shortest time that ten observations span."""

AGAIN = 2
"""From the second failed call, or the second dead owner, at one position a shard is FAILING. Once may be chance."""

LONGEST_FORECAST = timedelta(days=365)
NOTHING = timedelta(0)


class Status(StrEnum):
    """A shard's status."""

    OK = "OK"
    BEHIND = "BEHIND"
    """Its position advances, but its lag has never fallen."""
    STALLED = "STALLED"
    """Its owner lives and records wait, but its position stands still."""
    STOPPED = "STOPPED"
    """Records wait, and its lease has not been written for longer than the last ten observations span; or its owner is
    gone.
    """
    FAILING = "FAILING"
    """By its row, the handler has failed more than once with what follows the position, owners have died there, or its
    owner's reads get no answer.
    """
    REWOUND = "REWOUND"
    """Its position was moved back, and has not reached the same place again."""
    WAITING = "WAITING"
    """It begins when its parents are finished."""
    PAUSED = "PAUSED"
    """An operator has paused it, so it is not judged."""
    ENDED = "ENDED"
    UNKNOWN = "UNKNOWN"
    """Not enough is known. A shard without records is never BEHIND, and a page without records that lags proves
    nothing.
    """


STANDS = frozenset({Status.FAILING, Status.STOPPED})
"""Statuses of shards whose position is known not to move, whatever the last ten observations show."""


class StatusReason(StrEnum):
    """Why the shard has its status."""

    NOTHING_WAITS = "nothing waits"
    WAS_CAUGHT_UP = "recently caught up"
    NOTHING_WAITED = "nothing waited at the lease row's last report"
    """What has come since then is not known. `since` is that moment."""
    LAG_FALLS = "lag is falling"
    LAG_NEVER_FELL = "lag has never fallen"
    HANDLER_FAILS = "the handler fails at this position"
    OWNERS_DIE = "workers die at this position"
    NOT_ANSWERED = "Kinesis does not answer the owner's reads; the owner's log says why"
    POSITION_STANDS = "records wait and the owner heartbeats, but the checkpoint does not move"
    NO_SIGN_OF_LIFE = "records wait, and no owner has written to the lease"
    OWNER_GONE = "records wait, the owner is gone, and no worker has taken the lease"
    MOVED_BACK = "the checkpoint was moved back"
    PAUSED = "paused by an operator"
    PARENTS = "the parent shards are not finished"
    READ_TO_ITS_END = "the shard is read to its end"
    NOT_OPENED = "at LATEST, not opened yet"
    LAG_UNKNOWN = "it is not known whether records wait"
    WATCHED_BRIEFLY = "not watched for long enough"


class ShardVerdict(Struct, frozen=True):
    """`since`: when it began, or was first observed; None if neither means anything."""

    status: Status
    because: StatusReason
    since: datetime | None = None


class TimeStanding(Struct, frozen=True):
    """How far a shard is behind, and whether it catches up.

    behind        how long the first record after the checkpoint has waited; zero if none waits, None if not known. At
                  most the retention: what is older is `lost`
    is_at_least   whether `behind` is a lower bound: a record has waited for that long, and perhaps others for longer
    trend         by how many seconds `behind` grows each second: 0.3 falls back, -0.3 catches up; None if not known
    caught_up_in  when nothing will wait if it goes on like this; None if the lag does not fall, or in more than a year
    lost          the span of time whose records were trimmed before they were handled; None if no loss is known
    """

    verdict: ShardVerdict
    behind: timedelta | None = None
    is_at_least: bool = False
    trend: float | None = None
    caught_up_in: timedelta | None = None
    lost: timedelta | None = None


def standing_of(
    lease: Lease,
    history: History,
    now: datetime,
    *,
    waiting: timedelta | None = None,
    waits_since: datetime | None = None,
    waits_for: Collection[str] = (),
    retention: timedelta | None = None,
    pause: Pause | None = None,
    here: Position | None = None,
    silent_after: timedelta = HELD_CAUGHT_UP_LATELY,
    gone_since: datetime | None = None,
) -> TimeStanding:
    """Judges a shard from its lease's row and its last observations.

    waiting      how long the next record has waited, if the shard was asked and its pages told (`waiting_times`)
    waits_since  a record has waited after this checkpoint since then, as earlier ticks found
    waits_for    parents that are not finished
    retention    of the stream; None if not known
    pause        by an operator
    here         where the lease stands, if the observations have positions of another kind than its row
                 (`seen_by_owners`)
    silent_after  as for `believed_for`
    gone_since   when its owner last wrote, if it has been silent for so long that others should have taken the lease
    """
    here = here or lease.position
    if lease.is_ended:
        return TimeStanding(ShardVerdict(Status.ENDED, StatusReason.READ_TO_ITS_END))
    lag, is_at_least = _lag(lease, history, here, now, waiting, waits_since, believed_for(lease, silent_after))
    seen = _until_now(history, here, now, lag)
    said = _held_up(waits_for, pause) or _verdict(lease, seen, now, lag, gone_since)
    trend = _trend(seen, now, lag, said.status) if lag else None
    behind = lag if lag is None or retention is None else min(lag, retention)
    return TimeStanding(
        said,
        behind,
        is_at_least,
        trend,
        _caught_up_in(behind, trend),
        _lost(lease, history, here, now, retention),
    )


def _held_up(waits_for: Collection[str], pause: Pause | None) -> ShardVerdict | None:
    if pause is not None:
        return ShardVerdict(Status.PAUSED, StatusReason.PAUSED, pause.since)
    return ShardVerdict(Status.WAITING, StatusReason.PARENTS) if waits_for else None


def _lag(
    lease: Lease,
    history: History,
    here: Position,
    now: datetime,
    waiting: timedelta | None,
    waits_since: datetime | None,
    believed: timedelta,
) -> tuple[timedelta | None, bool]:
    """How long the first record has waited, and whether that is only a lower bound. A position that does not move is
    never less far behind than before, unless its records are trimmed.
    """
    since = _waits_since(lease, history, here)
    at_least = _waits_at_least_since(lease, history, here, waits_since)
    unhandled = [now - at for at in (*since, *at_least)]
    if waiting is not None:
        return (max([waiting, *unhandled]) if waiting else waiting), False
    if since or at_least:
        return max(unhandled), not since
    if is_caught_up(lease, now, believed):
        return NOTHING, False
    return _lag_when_it_moved(history[-1], here) if history else None, False


def _lag_when_it_moved(last: LagObservation, here: Position) -> timedelta | None:
    """The lag at the last look, if the position has moved on since; None if that says nothing about the present
    position.
    """
    return None if last.position == here or _is_before(here, last.position) else last.behind


def _waits_at_least_since(
    lease: Lease, history: History, here: Position, waits_since: datetime | None
) -> list[datetime]:
    """Moments at which a record waited that is not known to be the first: as ticks found, and before the position was
    moved back.
    """
    last = history[-1] if history else None
    is_moved_back = last is not None and _is_before(here, last.position)
    before = last.at - last.behind if last is not None and last.behind and is_moved_back else None
    known = (waits_since, before, again_since(lease))
    return [at for at in known if at is not None and not was_caught_up_since(lease, at)]


def _waits_since(lease: Lease, history: History, here: Position) -> list[datetime]:
    """Moments since when a record is known to wait after the checkpoint: by the last observation, and by the row."""
    last, report = history[-1] if history else None, lease.lag_report
    seen = last.at - last.behind if last and last.behind and last.position == here else None
    reported = None if report is None else report.waits_since
    return [at for at in (seen, reported) if at is not None and not was_caught_up_since(lease, at)]


def _lost(
    lease: Lease, history: History, here: Position, now: datetime, retention: timedelta | None
) -> timedelta | None:
    """The span of time whose records were trimmed before they were handled; None if no loss is known. Trimmed records
    do not count as lag: no reader can ever catch up with them.
    """
    since = min(_waits_since(lease, history, here), default=None)
    if retention is None or since is None or now - since <= retention:
        return None
    return now - since - retention


def _verdict(
    lease: Lease, seen: History, now: datetime, lag: timedelta | None, gone_since: datetime | None
) -> ShardVerdict:
    return (
        _stopped(seen, lease, now, lag)
        or _failing(lease)
        or _caught_up(lag)
        or _left_alone(lag, gone_since)
        or _rewound(seen)
        or (_was_caught_up(seen, lease, now, lag) if gone_since is None else None)
        or _unknown(seen, lease, lag)
        or _stalled(seen)
        or _behind(seen)
    )


def _trend(seen: History, now: datetime, lag: timedelta | None, status: Status) -> float | None:
    """The slope of the line that best fits the observations since the last rewind; None with fewer than three of known
    lag. While a position stands, its lag grows with time.
    """
    if status in STANDS:
        return 1.0
    seen = _since_the_last_rewind(seen)
    known = {look.at: look.behind.total_seconds() for look in seen if look.behind is not None}
    if lag is not None:
        known[now] = lag.total_seconds()
    if len(known) < 3:
        return None
    points = [((at - now).total_seconds(), behind) for at, behind in known.items()]
    middle = sum(at for at, _ in points) / len(points)
    height = sum(behind for _, behind in points) / len(points)
    width = sum((at - middle) ** 2 for at, _ in points)
    return sum((at - middle) * (behind - height) for at, behind in points) / width


def _caught_up_in(lag: timedelta | None, trend: float | None) -> timedelta | None:
    if not lag or trend is None or trend >= 0:
        return None
    seconds = lag.total_seconds() / -trend
    return timedelta(seconds=seconds) if seconds <= LONGEST_FORECAST.total_seconds() else None


def _until_now(history: History, here: Position, now: datetime, lag: timedelta | None) -> History:
    """The observations, and the row as it is now if it has moved since the last look."""
    if history and history[-1].position != here and history[-1].at < now:
        return (*history, LagObservation(now, here, lag))[-LENGTH:]
    return history


def _caught_up(lag: timedelta | None) -> ShardVerdict | None:
    """Burrow's first rule: a shard without lag is OK, whatever else is true."""
    return ShardVerdict(Status.OK, StatusReason.NOTHING_WAITS) if lag == NOTHING else None


def _stopped(seen: History, lease: Lease, now: datetime, lag: timedelta | None) -> ShardVerdict | None:
    """STOPPED if the lease has been silent for longer than the observations span. Not if everything that waits has
    arrived within that time, since the shard was caught up before. Burrow compares the last broker offsets with the
    last commit for this.
    """
    if lag is None:
        return None
    if not seen:  # it never had an owner
        is_silent = lease.actual_owner is None and lag > WINDOW and _failing(lease) is None
        return ShardVerdict(Status.STOPPED, StatusReason.NO_SIGN_OF_LIFE) if is_silent else None
    span = seen[-1].at - seen[0].at
    window = span if len(seen) == LENGTH else max(span, WINDOW)
    is_silent = now - seen[-1].at > window and lag > window
    return ShardVerdict(Status.STOPPED, StatusReason.NO_SIGN_OF_LIFE, seen[-1].at) if is_silent else None


def _failing(lease: Lease) -> ShardVerdict | None:
    """The row's own facts, which are void after any progress. Of dead owners a call that hung once is not one, though
    it counts as two (`crashes_by_hanging`).
    """
    failing = lease.failing
    if failing is not None and failing.attempt >= AGAIN:
        return ShardVerdict(Status.FAILING, StatusReason.HANDLER_FAILS, failing.since)
    if lease.unanswered_since is not None:
        return ShardVerdict(Status.FAILING, StatusReason.NOT_ANSWERED, lease.unanswered_since)
    hung = failing is not None and failing.error == HandlerOverdue.__name__
    return ShardVerdict(Status.FAILING, StatusReason.OWNERS_DIE) if lease.crashes >= AGAIN and not hung else None


def _left_alone(lag: timedelta | None, gone_since: datetime | None) -> ShardVerdict | None:
    if gone_since is None or lag is None:
        return None
    return ShardVerdict(Status.STOPPED, StatusReason.OWNER_GONE, gone_since)


def _rewound(seen: History) -> ShardVerdict | None:
    """Whether the shard was caught up and then moved back to its beginning. This comes before the next rule, by which
    such a shard would be OK.
    """
    at = _last_rewind(seen)
    return None if at is None else ShardVerdict(Status.REWOUND, StatusReason.MOVED_BACK, seen[at].at)


def _was_caught_up(seen: History, lease: Lease, now: datetime, lag: timedelta | None) -> ShardVerdict | None:
    """OK if at some observation nothing waited, or only records that had come since the observation before. A busy
    shard's position is written at intervals, so it is seldom without any lag.
    """
    if lag is None and seen and now - seen[-1].at > WINDOW:
        return None
    if is_caught_up(lease, now, WINDOW):
        said = max(nothing_waited_at(lease))
        return (
            ShardVerdict(Status.OK, StatusReason.WAS_CAUGHT_UP)
            if lag
            else ShardVerdict(Status.OK, StatusReason.NOTHING_WAITED, said)
        )
    is_well = any(look.behind == NOTHING for look in seen) or any(
        later.behind is not None and later.behind <= later.at - earlier.at for earlier, later in pairwise(seen)
    )
    return ShardVerdict(Status.OK, StatusReason.WAS_CAUGHT_UP) if is_well else None


def _unknown(seen: History, lease: Lease, lag: timedelta | None) -> ShardVerdict | None:
    if lag is None:
        return ShardVerdict(Status.UNKNOWN, StatusReason.NOT_OPENED if is_unopened(lease) else StatusReason.LAG_UNKNOWN)
    return ShardVerdict(Status.UNKNOWN, StatusReason.WATCHED_BRIEFLY) if len(seen) < ENOUGH else None


def _stalled(seen: History) -> ShardVerdict | None:
    is_same = all(look.position == seen[0].position for look in seen)
    return ShardVerdict(Status.STALLED, StatusReason.POSITION_STANDS, seen[0].at) if is_same else None


def _behind(seen: History) -> ShardVerdict:
    lags = [look.behind for look in seen if look.behind is not None]
    if len(lags) < ENOUGH:
        return ShardVerdict(Status.UNKNOWN, StatusReason.WATCHED_BRIEFLY)
    if all(earlier <= later for earlier, later in pairwise(lags)):
        return ShardVerdict(Status.BEHIND, StatusReason.LAG_NEVER_FELL, seen[0].at)
    return ShardVerdict(Status.OK, StatusReason.LAG_FALLS)


def _last_rewind(seen: History) -> int | None:
    """The index of the observation after the last rewind. None: there was no rewind, or the old position has been
    reached again.
    """
    for at in range(len(seen) - 1, 0, -1):
        earlier = seen[at - 1].position
        if all(_is_before(look.position, earlier) for look in seen[at:]):
            return at
    return None


def _since_the_last_rewind(seen: History) -> History:
    for at in range(len(seen) - 1, 0, -1):
        if _is_before(seen[at].position, seen[at - 1].position):
            return seen[at:]
    return seen


def _is_before(one: Position, other: Position) -> bool:
    """Whether `one` is earlier. LATEST never counts as earlier, though KCL's order has it before all sequence
    numbers.
    """
    if one.checkpoint == other.checkpoint:
        return one.start_at is not None and other.start_at is not None and one.start_at < other.start_at
    return one.checkpoint != LATEST and one.checkpoint < other.checkpoint
