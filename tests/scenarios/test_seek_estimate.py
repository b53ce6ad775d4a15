"""What a seek repeats or skips, and how long catching up takes. In given:

leases     as everywhere, and `seen`: what its owners have left in the row, [seconds ago, seconds waited, arrived
           seconds ago] of each report; `rate`: user records a second by the last of these
shards     as everywhere
wanted     {"shard id": checkpoint}: where the seek goes
moment     how many hours ago the time is that is sought; left out if the seek does not go to a time
standing   {"lease key": [handled up to so many seconds ago (null: not known), seconds behind (null: not known)]}, as
           the shards have answered; `sought` the same at the positions that are wanted
begins     {"shard id": how many seconds ago its first record arrived}
incoming   [bytes, records] a second, by CloudWatch
retention  in hours

Expected: what is known of each move, and all of it in words.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sublet.decisions.session.handled_position import HandledPosition
from sublet.operate.positions.seek_text import estimate_lines
from sublet.operate.rules.examination import Volume
from sublet.operate.rules.seek import plan_seek
from sublet.operate.rules.seek_estimate import MoveEstimate, SeekEvidence, estimate_of
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease, LeaseScan, Position

from tests.scenarios.story import NOW, Story, leases, shards

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


def test_seek_estimate(story: Story) -> None:
    given = story.given
    seen = {key: fields.pop("seen", []) for key, fields in given["leases"].items() if isinstance(fields, dict)}
    rates = {key: fields.pop("rate", None) for key, fields in given["leases"].items() if isinstance(fields, dict)}
    held = tuple(
        with_reports(lease, seen.get(lease.lease_key, []), rates.get(lease.lease_key)) for lease in leases(given)
    )
    wanted = {shard: Position(Checkpoint.parse(text)) for shard, text in given["wanted"].items()}
    listed = shards(given)
    plan = plan_seek(LeaseScan(held), listed, wanted, () if len(wanted) == len(listed) else tuple(wanted))
    estimate = estimate_of(plan, listed, evidence(given))
    story.check(
        {
            "moves": {key: known_of(move) for key, move in estimate.moves.items()},
            "lines": list(estimate_lines(estimate)),
        }
    )


def evidence(given: Any) -> SeekEvidence:
    return SeekEvidence(
        NOW,
        NOW - given.get("retention", 24) * HOUR,
        NOW - given["moment"] * HOUR if "moment" in given else None,
        positions(given.get("standing", {})),
        positions(given.get("sought", {})),
        {shard: NOW - ago * SECOND for shard, ago in given.get("begins", {}).items()},
        Volume(*given["incoming"]) if "incoming" in given else None,
    )


def positions(described: Any) -> dict[str, HandledPosition]:
    return {
        key: HandledPosition(None if ago is None else NOW - ago * SECOND, None if behind is None else behind * SECOND)
        for key, (ago, behind) in described.items()
    }


def with_reports(lease: Lease, seen: Any, rate: float | None) -> Lease:
    if not seen:
        return lease
    history = tuple(
        LagSeen(NOW - ago * SECOND, waited * SECOND, NOW - arrived * SECOND) for ago, waited, arrived in seen
    )
    at, lag, arrived_at = history[-1]
    return replace(lease, lag_history=history, lag_report=LagReport(at, lag, arrived_at, records_per_second=rate))


def known_of(move: MoveEstimate) -> Any:
    catch_up = move.catch_up
    found = {
        "seconds": in_seconds(move.time),
        "records": move.records,
        "catch_up": catch_up and in_seconds(catch_up.within),
        "never": catch_up and catch_up.is_never,
        "at_least": catch_up and in_seconds(catch_up.at_least),
        "trimmed": move.is_trimmed,
    }
    return {"effect": move.effect.value, **{k: v for k, v in found.items() if v not in (None, False)}}


def in_seconds(time: timedelta | None) -> int | None:
    return None if time is None else round(time.total_seconds())
