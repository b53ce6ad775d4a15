"""What is known about a shard's past: who moved its position, from where to where, and when; and what is not
recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from sublet.decisions.manager.liveness import Sighting
from sublet.protocol.control import Pause
from sublet.protocol.lease import Lease, Position
from sublet.protocol.snapshot import Snapshot

NOT_KEPT = (
    'earlier owners: a row has the current one, and the application\'s log ("acquired", "released") the others',
    'seeks, undos and skips before the last five: their log line is "position moved"',
    "positions that were written by hand or by other tools",
)
"""What is recorded nowhere, in words."""


class ShardEvent(Struct, frozen=True):
    """`at`: UTC. `by`, `before`, `after`: empty where they are not known, or do not apply."""

    at: datetime
    what: str
    by: str = ""
    before: str = ""
    after: str = ""


class ShardHistory(Struct, frozen=True):
    """`events`: oldest first. `today`: what the row says now, in words."""

    lease_key: str
    events: tuple[ShardEvent, ...]
    today: tuple[str, ...]
    not_kept: tuple[str, ...] = NOT_KEPT


def shard_history(
    lease: Lease, snapshots: Iterable[Snapshot], sighting: Sighting | None, pause: Pause | None
) -> ShardHistory:
    found = [*_moves(lease.lease_key, snapshots), *_reports(lease)]
    if sighting is not None and sighting.moved_at is not None:
        found.append(
            ShardEvent(sighting.moved_at, "a lease manager saw it with another owner", by=sighting.lease_owner or "")
        )
    if pause is not None:
        until = "" if pause.until is None else f"until {pause.until.isoformat()}"
        found.append(ShardEvent(pause.since, f"{pause.order}", by=pause.by, after=until))
    return ShardHistory(lease.lease_key, tuple(sorted(found, key=lambda each: each.at)), tuple(_today(lease)))


def _moves(lease_key: str, snapshots: Iterable[Snapshot]) -> Iterator[ShardEvent]:
    for snapshot in snapshots:
        if lease_key not in snapshot.positions:
            continue
        before = position_text(snapshot.positions[lease_key])
        if lease_key in snapshot.moved:
            then = snapshot.then.get(lease_key)
            after = "" if then is None else position_text(then)
            cut_short = ", begun and not known to be finished" if snapshot.is_begun else ""
            yield ShardEvent(snapshot.taken_at, snapshot.why + cut_short, snapshot.by, before, after)
        elif not snapshot.moved:
            yield ShardEvent(snapshot.taken_at, f"kept as {snapshot.name}", snapshot.by, before)


def _reports(lease: Lease) -> Iterator[ShardEvent]:
    """The owners' reports in the row: the last ten, at most one a minute."""
    for seen in lease.lag_history:
        behind = "" if seen.lag is None else f"{seen.lag.total_seconds():.0f} s behind"
        yield ShardEvent(seen.at, "its owner reported", after=behind)


def _today(lease: Lease) -> Sequence[str]:
    owner = lease.actual_owner
    said = [
        f"position {position_text(lease.position)}",
        f"owner {owner or 'none'}, counter {lease.lease_counter:,}",
    ]
    if lease.owner_switches_since_checkpoint:
        said.append(f"{lease.owner_switches_since_checkpoint:,} owners since its last checkpoint")
    if lease.crashes:
        said.append(f"{lease.crashes:,} owners died at this position")
    if lease.attempts:
        said.append(f"{lease.attempts:,} failed calls with what comes next")
    if lease.failing:
        error, attempt, since = lease.failing
        said.append(f"failing with {error} since {since.isoformat()}, attempt {attempt:,}")
    return said


def position_text(position: Position) -> str:
    at = "" if position.start_at is None else f" from {position.start_at.isoformat()}"
    return f"{position.checkpoint}{at}"
