"""Makes a seek in three steps: plan it, show the plan, carry it out. A snapshot undoes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.handled_position import HandledPosition
from sublet.decisions.seek import (
    BEGINNING,
    UNOPENED,
    SeekPlan,
    check_parents,
    never_opened,
    plan_seek,
    positions_at,
    positions_like,
)
from sublet.decisions.seek_estimate import SeekEstimate
from sublet.decisions.stream_adoption import suspects
from sublet.engine.manager.probing import positions
from sublet.errors import SeekRefused
from sublet.inspection import Inspection
from sublet.operate.find import places_of
from sublet.operate.place import EARLIEST, SeekTime
from sublet.operate.seek import Seek, begun, check_stream, opens, undone_by
from sublet.operate.seek_estimate import estimated, estimated_by_stream
from sublet.operate.shown import time_text
from sublet.ports import Ports, SnapshotStore
from sublet.protocol.lease import Lease, LeaseScan, Position, shard_id_of
from sublet.protocol.shard import Shard
from sublet.protocol.snapshot import Snapshot
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import stream_key_of
from sublet.several_streams import named_shards, streams_read

BY_HAND = "by hand"
AUTOMATIC_NAME = re.compile(r"seek-\d{8}T\d{6}\.\d{6}Z")
AUTOMATIC_KEPT = 5
"""How many of the snapshots that seeks take to keep."""

SCANNED_WITHIN = timedelta(seconds=10)
"""The longest that a scan may take. A scan says only when it ended, and a lease that was opened during it must not be moved to a
later time.
"""

NAMED_SKIPS = 1
"""In how many shards a seek may skip records without asking for the application's name."""


SNAPSHOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Snapshot names are also valid file names."""


def check_snapshot_name(name: str) -> None:
    """Raises SeekRefused."""
    if not SNAPSHOT_NAME.fullmatch(name):
        raise SeekRefused(f"{name!r} is not a name of 1 to 100 of A-Z a-z 0-9 . _ -")


def snapshot_by_hand(
    name: str, scan: LeaseScan, now: datetime, by: str, stream: StreamIdentity | None
) -> Snapshot:
    """Makes a snapshot of all positions. `stream`: the stream that they are of, if known. Raises SeekRefused for a name that is
    not allowed.
    """
    check_snapshot_name(name)
    return _snapshot(name, scan, now, BY_HAND, by, stream)


def _snapshot(
    name: str, scan: LeaseScan, now: datetime, why: str, by: str, stream: StreamIdentity | None
) -> Snapshot:
    held = {lease.lease_key: lease.position for lease in scan.leases}
    return Snapshot(name, now, why, held, by=by, read_at=_read_at(scan, now), stream=stream)


def _read_at(scan: LeaseScan, now: datetime) -> datetime:
    return (scan.at or now) - SCANNED_WITHIN


@dataclass(frozen=True, slots=True)
class SeekTarget:
    """Where a seek goes.

    positions  by shard id
    what       the target in words, as logs and snapshots show it
    only       the ids of the shards to move; empty: all
    moment     the time, if the target is a time
    is_ours    True if the positions were found in this stream just now
    stream     otherwise, the stream in which they were found; None if that is not known
    """

    positions: Mapping[str, Position]
    what: str
    only: tuple[str, ...] = ()
    moment: datetime | None = None
    is_ours: bool = True
    stream: StreamIdentity | None = None


def at_place(place: SeekTime, shards: Sequence[Shard], only: Sequence[str], ports: Ports) -> SeekTarget:
    """Finds the place of a time. Reads each shard that is to move, unless the place is the earliest. Raises SeekRefused and
    what Stream raises.
    """
    only = named_shards(only, ports)
    moment = place.moment(ports.stream.service_time())
    if moment is None:
        return SeekTarget({shard.shard_id: BEGINNING for shard in shards}, f"seek to {EARLIEST}", tuple(only))
    named = set(only) or {shard.shard_id for shard in shards}
    asked = shards_asked(shards, only)
    found = places_of(asked, moment, ports)
    check_parents(asked, found, named)
    return SeekTarget(positions_at(asked, found), f"seek to {place.text}", tuple(only), moment)


def shards_asked(shards: Sequence[Shard], only: Sequence[str]) -> list[Shard]:
    """Returns the shards in which `at_place` looks for a time: the named ones, or all, and their parents."""
    named = set(only) or {shard.shard_id for shard in shards}
    parents = {parent for shard in shards if shard.shard_id in named for parent in shard.parent_shard_ids}
    return [shard for shard in shards if shard.shard_id in named | parents]


def at_snapshot(
    name: str,
    application: str,
    snapshots: SnapshotStore,
    shards: Sequence[Shard],
    only: Sequence[str],
    ports: Ports,
) -> SeekTarget:
    """Goes to a snapshot's positions. Raises SeekRefused if there is no such snapshot, and what Stream raises."""
    kept = {each.name: each for each in snapshots.snapshots()}
    if name not in kept:
        raise SeekRefused(
            f"there is no snapshot {name} of {application}; there are: {', '.join(kept) or 'none'}"
        )
    if kept[name].problem:
        raise SeekRefused(f"snapshot {name} of {application} cannot be read: {kept[name].problem}")
    return at_positions(kept[name], f"seek to snapshot {name}", shards, only, ports)


def at_positions(
    known: Snapshot, what: str, shards: Sequence[Shard], only: Sequence[str], ports: Ports
) -> SeekTarget:
    """Goes to given positions. Reads the stream for shards that no reader had opened. Raises SeekRefused if all positions are
    of other streams, and what Stream raises.
    """
    read_at = known.read_at or known.taken_at - SCANNED_WITHIN
    only = named_shards(only, ports)
    positions_then = _opened(_by_shard(known.positions), read_at, shards, only, ports)
    return SeekTarget(positions_then, what, tuple(only), stream=known.stream, is_ours=False)


def _opened(
    known: Mapping[str, Position],
    read_at: datetime,
    shards: Sequence[Shard],
    only: Sequence[str],
    ports: Ports,
) -> dict[str, Position]:
    """Returns positions by shard id. A shard that no reader had opened goes to the last record before `read_at`: opened now, at
    LATEST, it would skip the records since then, and Java does not read a pin. Streams without a known position stay where they
    are.
    """
    shards = _of_known_streams(known, shards, only)
    named = set(only) or {shard.shard_id for shard in shards}
    asked = [shard for shard in never_opened(shards, known) if shard.shard_id in named]
    found = positions_at(asked, places_of(asked, read_at, ports))
    begun = {shard_id: BEGINNING if at == UNOPENED else at for shard_id, at in known.items()}
    return positions_like(shards, {**begun, **found})


def _of_known_streams(
    known: Mapping[str, Position], shards: Sequence[Shard], only: Sequence[str]
) -> Sequence[Shard]:
    """Returns the shards of streams with a position. Raises SeekRefused if a named shard, or every shard, has none."""
    streams = {stream_key_of(shard_id) for shard_id in known}
    found = [shard for shard in shards if stream_key_of(shard.shard_id) in streams]
    missing = [name for name in only if known and stream_key_of(name) not in streams]
    if missing or (shards and known and not found):
        theirs = ", ".join(
            sorted({"an application of one stream" if key is None else str(key) for key in streams})
        )
        raise SeekRefused(
            f"nothing was moved: the positions are of {theirs}, and none is of {', '.join(missing) or 'these streams'}"
        )
    return found if known else shards


def at_application(
    name: str,
    theirs: LeaseScan,
    known: StreamIdentity | None,
    shards: Sequence[Shard],
    only: Sequence[str],
    ports: Ports,
) -> SeekTarget:
    """Goes to the positions of another application, which has the leases `theirs` on the stream `known`. Raises SeekRefused and
    StreamNotAdopted.
    """
    held = {lease.shard_id: lease.position for lease in theirs.leases}
    if not held:
        raise SeekRefused(f"application {name} has no leases of one stream")
    only = named_shards(only, ports)
    check_stream(name, known, theirs.leases, shards, ports)
    read_at = _read_at(theirs, ports.clock.now())
    positions_now = _opened(held, read_at, shards, only, ports)
    return SeekTarget(positions_now, f"seek like {name}", tuple(only), stream=known, is_ours=False)


def before_the_last(
    application: str, snapshots: SnapshotStore, shards: Sequence[Shard], ports: Ports
) -> SeekTarget:
    """Undoes the last seek. Raises SeekRefused if there is none, and what Stream raises."""
    kept = snapshots.snapshots()
    seeks = [each for each in kept if each.moved]
    unread = [each for each in kept if each.problem and AUTOMATIC_NAME.fullmatch(each.name)]
    if unread and (not seeks or unread[-1].name > seeks[-1].name):
        raise SeekRefused(
            f"the snapshot of the last seek, {unread[-1].name}, cannot be read: {unread[-1].problem}"
        )
    if not seeks:
        raise SeekRefused(f"there is no seek of {application} to undo")
    last = seeks[-1]
    cut_short = ", which did not finish" if last.is_begun else ""
    what = f"undo {last.why}, made at {time_text(last.taken_at)}{cut_short}"
    moved = [shard_id_of(lease_key) for lease_key in last.moved]
    if ports.streams is not None:
        moved = _of_streams(moved, what, ports)
    return at_positions(last, what, shards, moved, ports)


def _of_streams(moved: Sequence[str], what: str, ports: Ports) -> list[str]:
    """Returns those of the moved shards that are of these ports' streams. Raises SeekRefused if there are none."""
    streams = streams_read(ports)
    found = [shard_id for shard_id in moved if stream_key_of(shard_id) in streams]
    if not found:
        raise SeekRefused(
            f"{what}: nothing to undo, since it moved no shard of {', '.join(map(str, streams))}"
        )
    return found


def _by_shard(held: Mapping[str, Position]) -> dict[str, Position]:
    return {shard_id_of(lease_key): position for lease_key, position in held.items()}


NOTHING_KNOWN = SeekEstimate()


@dataclass(frozen=True, slots=True)
class PlannedSeek:
    """A seek that was planned and not carried out.

    scan      the leases that were planned for
    in_time   by lease key, what is known of the positions of leases that move
    stream    None in an application of several streams, whose lease keys name them
    estimate  what is repeated or skipped, and how long the fleet needs to catch up
    """

    application: str
    plan: SeekPlan
    what: str
    scan: LeaseScan
    in_time: Mapping[str, HandledPosition]
    stream: StreamIdentity | None
    estimate: SeekEstimate = NOTHING_KNOWN

    @property
    def needs_confirmation(self) -> bool:
        """True if the seek skips records in so many shards that the operator must type the application's name."""
        return len(self.plan.skips) > NAMED_SKIPS


def planned(
    application: str,
    known: StreamIdentity | None,
    scan: LeaseScan,
    shards: Sequence[Shard],
    wanted: SeekTarget,
    ports: Ports,
    inspection: Inspection | None = None,
) -> PlannedSeek:
    """Plans a seek, and moves nothing. `known`: see `check_stream`; `inspection` counts records by CloudWatch's figures. Raises
    SeekRefused and StreamNotAdopted.
    """
    if not scan.leases:
        raise SeekRefused(f"application {application} has no leases yet: there is nothing to move")
    plan = plan_seek(scan, shards, wanted.positions, wanted.only, wanted.moment)
    moved = {move.lease_key for move in plan.moves} if known or wanted.stream else ()
    staying = [lease for lease in scan.leases if lease.lease_key not in moved]  # a seek may repair the others
    stream = check_stream(application, known, staying, shards, ports)
    identity = None if stream is None else stream.identity
    _check_target(wanted, plan, identity, shards, ports)
    in_time = positions([move.lease for move in plan.moves if move.lease is not None], ports)
    estimate = (
        estimated_by_stream(plan, scan, shards, wanted.moment, in_time, ports, inspection)
        if stream is None
        else estimated(plan, scan, shards, stream, wanted.moment, in_time, ports, inspection)
    )
    return PlannedSeek(application, plan, wanted.what, scan, in_time, identity, estimate)


def _check_target(
    wanted: SeekTarget, plan: SeekPlan, stream: StreamIdentity | None, shards: Sequence[Shard], ports: Ports
) -> None:
    """Raises SeekRefused for positions of another stream, because they would stop each shard. Makes one call for each position
    that may be of another stream.
    """
    if wanted.is_ours:
        return
    if wanted.stream is not None and stream is not None and not wanted.stream.is_same_as(stream):
        raise SeekRefused(
            f"{wanted.what}: nothing was moved, since its positions are in another stream, {wanted.stream}; this one is {stream}"
        )
    targets = [Lease(move.lease_key, move.then.checkpoint) for move in plan.moves]
    strange = [suspect.lease for suspect in suspects(targets, shards)]
    if (wanted.stream is None or stream is None) and not strange:
        strange = [lease for lease in targets if not opens(lease, ports)]
    if strange:
        first = strange[0]
        raise SeekRefused(
            f"{wanted.what}: nothing was moved, since {first.checkpoint} is not in shard {first.shard_id} of this stream"
        )


def seek_of(found: PlannedSeek, ports: Ports) -> Seek:
    """Returns the seek. Its `before` shows how many leases `carry_out` has moved so far."""
    return Seek(found.plan, ports, found.what)


def carry_out(found: PlannedSeek, seek: Seek, snapshots: SnapshotStore, by: str = "") -> None:
    """Keeps a snapshot, then moves the leases. If this raises, the snapshot undoes the moves made so far; if the process is
    killed, it undoes the whole plan. `by`: the name of the person who ordered it, for the history.
    """
    now = _taken_at(seek.ports.clock.now(), snapshots)
    name = f"seek-{now:%Y%m%dT%H%M%S.%f}Z"
    snapshot = _snapshot(name, found.scan, now, found.what, by, found.stream)
    snapshots.keep_snapshot(begun(snapshot, found.plan))
    try:
        seek.run()
    finally:
        snapshots.keep_snapshot(undone_by(snapshot, seek))
        _forget_old(snapshots)


def _taken_at(now: datetime, snapshots: SnapshotStore) -> datetime:
    """Returns a moment after every other snapshot's, so that an undo finds the last seek even if another operator's clock is
    ahead.
    """
    latest = max((each.taken_at for each in snapshots.snapshots()), default=None)
    return now if latest is None else max(now, latest + timedelta(milliseconds=1))


def _forget_old(snapshots: SnapshotStore) -> None:
    """Deletes the oldest snapshots that seeks took. Keeps those that a person took, whatever their names."""
    seeks = [
        each for each in snapshots.snapshots() if AUTOMATIC_NAME.fullmatch(each.name) and each.why != BY_HAND
    ]
    for old in seeks[:-AUTOMATIC_KEPT]:
        snapshots.delete_snapshot(old.name)
