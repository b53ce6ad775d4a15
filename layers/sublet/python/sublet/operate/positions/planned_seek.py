"""Makes a seek in three steps: plan it, show the plan, carry it out. A snapshot undoes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sublet.decisions.manager.stream_adoption import suspects
from sublet.decisions.session.handled_position import HandledPosition
from sublet.engine.position_times import positions
from sublet.errors import SeekRefused
from sublet.operate.formatting import time_text
from sublet.operate.inspection import Inspection
from sublet.operate.positions.seek import SeekRun, begun, check_stream, newer_seeks, opens, undone_by
from sublet.operate.positions.seek_estimate import estimated, estimated_by_stream
from sublet.operate.positions.seek_target import SeekTarget
from sublet.operate.positions.snapshots import after_all, automatic_name, forget_old, snapshot_of
from sublet.operate.rules.seek import SeekPlan, plan_seek
from sublet.operate.rules.seek_estimate import SeekEstimate
from sublet.ports import Ports, SnapshotStore
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity

NAMED_SKIPS = 1
"""In how many shards a seek may skip records without asking for the application's name."""

NOTHING_KNOWN = SeekEstimate()


@dataclass(frozen=True, slots=True)
class PlannedSeek:
    """A seek that was planned and not carried out.

    scan      the leases that were planned for
    in_time   by lease key, what is known of the positions of leases that move
    stream    None in an application of several streams, whose lease keys name them
    estimate  what is repeated or skipped, and how long the fleet needs to catch up
    seeks     the names of the snapshots of seeks made before this one was planned (`seeks_made`); None: they were not
              looked up, and only the leases' positions show whether the plan is still true
    """

    application: str
    plan: SeekPlan
    what: str
    scan: LeaseScan
    in_time: Mapping[str, HandledPosition]
    stream: StreamIdentity | None
    estimate: SeekEstimate = NOTHING_KNOWN
    seeks: frozenset[str] | None = None

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
    seeks: frozenset[str] | None = None,
) -> PlannedSeek:
    """Plans a seek, and moves nothing. `known`: see `check_stream`; `inspection` counts records by CloudWatch's
    figures. `seeks`: see PlannedSeek; looked up before the scan. Raises SeekRefused and StreamNotAdopted.
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
        estimated_by_stream(plan, shards, wanted.moment, in_time, ports, inspection)
        if stream is None
        else estimated(plan, shards, stream, wanted.moment, in_time, ports, inspection)
    )
    return PlannedSeek(application, plan, wanted.what, scan, in_time, identity, estimate, seeks)


def _check_target(
    wanted: SeekTarget, plan: SeekPlan, stream: StreamIdentity | None, shards: Sequence[Shard], ports: Ports
) -> None:
    """Raises SeekRefused for positions of another stream, because they would stop each shard. Makes one call for each
    position that may be of another stream.
    """
    if wanted.is_ours:
        return
    if wanted.stream is not None and stream is not None and not wanted.stream.is_same_as(stream):
        raise SeekRefused(
            f"{wanted.what}: nothing was moved, since its positions are in another stream, {wanted.stream}; this one "
            f"is {stream}"
        )
    targets = [Lease(move.lease_key, move.then.checkpoint) for move in plan.moves]
    strange = [suspect.lease for suspect in suspects(targets, shards)]
    if (wanted.stream is None or stream is None) and not strange:
        strange = [lease for lease in targets if not opens(lease, ports)]
    if strange:
        first = strange[0]
        raise SeekRefused(
            f"{wanted.what}: nothing was moved, since {first.checkpoint} is not in shard {first.shard_id} of this "
            "stream"
        )


def seek_of(found: PlannedSeek, ports: Ports) -> SeekRun:
    """Returns the seek. Its `before` shows how many leases `carry_out` has moved so far."""
    return SeekRun(found.plan, ports, found.what)


def carry_out(found: PlannedSeek, seek: SeekRun, snapshots: SnapshotStore, by: str = "") -> None:
    """Checks that the plan is still true, keeps a snapshot, then moves the leases. If this raises, the snapshot undoes
    the moves made so far; if the process is killed, it undoes the whole plan. `by`: the name of the person who ordered
    it, for the history.
    """
    seek.check()
    if found.seeks is not None:
        _check_newest(found.plan, found.seeks, snapshots)
    now = after_all(snapshots, seek.ports.clock.now())
    snapshot = snapshot_of(automatic_name(now), found.scan, now, found.what, by, found.stream)
    snapshots.keep_snapshot(begun(snapshot, found.plan))
    try:
        seek.run()
    finally:
        snapshots.keep_snapshot(undone_by(snapshot, seek))
        forget_old(snapshots)


def _check_newest(plan: SeekPlan, known: frozenset[str], snapshots: SnapshotStore) -> None:
    """Raises SeekRefused if another seek has moved leases of this plan since it was made. Called after the leases were
    looked at: a seek that moves them later has its snapshot later too, and shows in their counters.
    """
    for newer in newer_seeks(snapshots.snapshots(), known, plan.moves):
        by = f" by {newer.by}" if newer.by else ""
        raise SeekRefused(
            f"positions of this plan were moved since it was made, at {time_text(newer.taken_at)}{by}: {newer.why}. "
            "Nothing was moved. Make a new plan"
        )
