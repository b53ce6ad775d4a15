"""A seek and an undo as changes that the console plans, shows and carries out."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime

from sublet.decisions.plurals import counted
from sublet.errors import SeekRefused
from sublet.operate.console.applications import OpenApplication, VisibleApplications
from sublet.operate.console.plans import PlanRow, PreparedChange
from sublet.operate.formatting import age_text
from sublet.operate.positions.planned_seek import PlannedSeek, carry_out, planned, seek_of
from sublet.operate.positions.seek_target import SeekTarget, at_application, at_place, at_snapshot, before_the_last
from sublet.operate.positions.seek_text import estimate_lines, move_text, stay_text
from sublet.operate.positions.seek_time import SeekTime
from sublet.operate.positions.snapshots import seeks_made
from sublet.operate.rules.seek import LeaseMove, MoveEffect
from sublet.operate.rules.shard_history import position_text
from sublet.protocol.shard import Shard


@dataclass(frozen=True, slots=True)
class SeekRequest:
    """Where a seek goes: to `place`, `snapshot` or `like` (another application). Without any, it undoes the last
    seek.
    """

    place: SeekTime | None = None
    snapshot: str | None = None
    like: str | None = None
    shards: tuple[str, ...] = ()

    @property
    def is_undo(self) -> bool:
        return self.place is None and self.snapshot is None and self.like is None


def fixed(request: SeekRequest, now: datetime) -> SeekRequest:
    """Turns a time ago into a time, so that the plan, its command and its log lines mean the same moment."""
    place = request.place
    if place is None or not place.ago:
        return request
    at = (now - place.ago).replace(microsecond=0)
    return replace(request, place=SeekTime(at.isoformat().replace("+00:00", "Z"), at=at))


def words_of(request: SeekRequest) -> str:
    where = "all shards" if not request.shards else ", ".join(request.shards)
    if request.place is not None:
        return f"Move {where} to {request.place.text}"
    if request.snapshot is not None:
        return f"Move {where} to snapshot {request.snapshot}"
    return "Undo the last seek" if request.like is None else f"Move {where} to where {request.like} is"


def command_of(request: SeekRequest, application: OpenApplication) -> str:
    """Returns the command that does the same in a terminal."""
    parts = ["sublet", "undo" if request.is_undo else "seek"]
    if request.place is not None:
        parts.append(request.place.text)
    if request.snapshot is not None:
        parts += ["--to-snapshot", request.snapshot]
    if request.like is not None:
        parts += ["--like", request.like]
    parts += ["--application", application.name, *application.stream_option]
    for shard in request.shards:
        parts += ["--shard", shard]
    return shlex.join([*parts, "--execute"])


def prepare_seek(
    request: SeekRequest, application: OpenApplication, applications: VisibleApplications, by: str
) -> PreparedChange:
    """Prepares a seek. Reads the leases, the shards and, for a time, each shard. `by`: the operator. Raises
    SubletError.
    """
    ports = application.ports
    seeks = seeks_made(application.snapshots)
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    target = _target(request, application, applications, shards)
    found = planned(application.name, application.known, scan, shards, target, ports, application.inspection, seeks)
    seek = seek_of(found, ports)

    def run() -> str:
        carry_out(found, seek, application.snapshots, by)
        return f"{counted(len(seek.before), 'lease')} moved."

    skipped = len(found.plan.skips)
    return PreparedChange(
        tuple(_row(move, found, ports.clock.now()) for move in found.plan.moves),
        effects_text(found),
        run,
        lambda: len(seek.before),
        warning=f"Records of {counted(skipped, 'shard')} will be skipped: no handler gets them." if skipped else "",
        undone_by="sublet undo",
        needs_name=found.needs_confirmation,
        meaning=tuple(estimate_lines(found.estimate)),
    )


def _target(
    request: SeekRequest, application: OpenApplication, applications: VisibleApplications, shards: tuple[Shard, ...]
) -> SeekTarget:
    if request.place is not None:
        return at_place(request.place, shards, request.shards, application.ports)
    if request.snapshot is not None:
        return at_snapshot(
            request.snapshot,
            application.name,
            application.snapshots,
            shards,
            request.shards,
            application.ports,
        )
    if request.like is None:
        return before_the_last(application.name, application.snapshots, shards, application.ports)
    other = applications.open(request.like)
    if other is None:
        raise SeekRefused(f"there is no application {request.like} in this console")
    theirs = other.ports.table.scan()
    return at_application(request.like, theirs, other.known, shards, request.shards, application.ports)


def effects_text(found: PlannedSeek) -> str:
    """Shows how many leases get which effect, such as `3 repeats, 1 skips, 4 stay where they are`."""
    effects = Counter(move.effect for move in found.plan.moves)
    parts = [f"{effects[effect]} {effect}" for effect in MoveEffect if effects[effect]]
    if found.plan.stay:
        parts.append(stay_text(len(found.plan.stay)))
    return ", ".join(parts) or "nothing to move"


def _row(move: LeaseMove, found: PlannedSeek, now: datetime) -> PlanRow:
    known = found.in_time.get(move.lease_key)
    handled_to = None if known is None else known.handled_to
    return PlanRow(
        move.shard.shard_id,
        move.effect.value,
        "no lease" if move.lease is None else position_text(move.lease.position),
        position_text(move.then),
        None if move.lease is None else move.lease.actual_owner,
        "" if handled_to is None else f"{age_text(now - handled_to)} old",
        move_text(found.estimate.moves.get(move.lease_key)),
    )
