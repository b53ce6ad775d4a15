"""The status of each shard, its trend and its forecast. In given:

lease      as in `leases`, with `caught_up`: how many seconds ago it was, and `start`: how many seconds ago it begins
history    its observations: [seconds ago, checkpoint, seconds that the next record had waited (null: not known)]
waiting    what the shard's pages tell now, in seconds; left out if it was not asked or did not tell
waits      for how many seconds a record is known to have waited, by earlier ticks
retention  in hours
waits_for  parents that are not finished
reported   what its row says: [seconds ago, seconds that the next record had waited (null: not known), how many seconds
           ago the checkpointed record had arrived (left out: not known)]
seen       instead of a history, what its owners have left in the row: [seconds ago, seconds waited, arrived seconds
           ago]
paused     for how many seconds an operator has paused it
failing    how its handler fails: [error, attempt, seconds ago]
gone       for how many seconds its owner has been gone, if others should have taken the lease since
silent_after  after how many seconds of silence an owner's word is no longer believed (left out: 120)
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sublet.decisions.status.lease_history import LagObservation, seen_by_owners
from sublet.decisions.status.status_rules import standing_of
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.control import Order, Pause
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease, Position

from tests.scenarios.story import NOW, Story, leases


def test_shard_status(story: Story) -> None:
    given = story.given
    lease = lease_of(given)
    history = tuple(observation(*row) for row in given.get("history", []))
    by_owners, here = seen_by_owners(lease)
    stands = standing_of(
        lease,
        history or by_owners,
        NOW,
        waiting=seconds(given.get("waiting")),
        waits_since=ago(given.get("waits")),
        waits_for=given.get("waits_for", ()),
        retention=timedelta(hours=given["retention"]) if "retention" in given else None,
        pause=Pause(Order.PAUSE, ago(given["paused"]), "an operator") if "paused" in given else None,
        here=here if "seen" in given else None,
        silent_after=timedelta(seconds=given.get("silent_after", 120)),
        gone_since=ago(given.get("gone")),
    )
    since = stands.verdict.since
    decided = {
        "word": stands.verdict.status.value,
        "because": stands.verdict.because.value,
        "since": since and (NOW - since).total_seconds(),
        "behind": in_seconds(stands.behind),
        "is_at_least": stands.is_at_least or None,
        "trend": None if stands.trend is None else round(stands.trend, 3),
        "caught_up_in": in_seconds(stands.caught_up_in),
        "lost": in_seconds(stands.lost),
    }
    story.check({name: value for name, value in decided.items() if value is not None})


def lease_of(given: Any) -> Lease:
    described = given["lease"]
    caught_up = described.pop("caught_up", None) if isinstance(described, dict) else None
    start = described.pop("start", None) if isinstance(described, dict) else None
    (lease,) = leases({"leases": {"1": described}})
    reported = given.get("reported")
    report = None if reported is None else LagReport(*lag_seen(*reported))
    seen = tuple(lag_seen(*row) for row in given.get("seen", []))
    lease = replace(lease, caught_up_at=ago(caught_up), start_at=ago(start), lag_report=report, lag_history=seen)
    if "failing" not in given:
        return lease
    error, attempt, since = given["failing"]
    return replace(lease, failing=HandlerFailure(error, attempt, ago(since)))


def lag_seen(before: float, lag: float | None, arrived: float | None = None) -> LagSeen:
    return LagSeen(ago(before), seconds(lag), ago(arrived))


def observation(before: float, checkpoint: str, behind: float | None) -> LagObservation:
    return LagObservation(NOW - timedelta(seconds=before), Position(Checkpoint.parse(checkpoint)), seconds(behind))


def seconds(number: float | None) -> timedelta | None:
    return None if number is None else timedelta(seconds=number)


def ago(number: float | None) -> Any:
    return None if number is None else NOW - timedelta(seconds=number)


def in_seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else round(duration.total_seconds(), 1)
