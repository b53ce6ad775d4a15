"""Moves a shard past the records that it is stuck on. They are set aside first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sublet.decisions.session.failure_policy import Condition
from sublet.decisions.session.read_position import read_position
from sublet.errors import SeekRefused
from sublet.operate.peek import ShardAsHandled, upcoming
from sublet.operate.positions.planned_seek import PlannedSeek, carry_out
from sublet.operate.positions.seek import SeekRun, check_stream
from sublet.operate.rules.skip import SkipPlan, lease_to_skip_in, plan_skip
from sublet.ports import FailureDestination, Ports, SnapshotStore
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.reading.several_streams import named_shards, settings_of_stream
from sublet.settings import Settings


@dataclass(frozen=True, slots=True)
class PlannedSkip:
    """`scan`: all leases as they were planned for."""

    plan: SkipPlan
    scan: LeaseScan
    stream: StreamIdentity | None


def planned_skip(
    shard_id: str,
    wanted: int,
    known: StreamIdentity | None,
    scan: LeaseScan,
    shards: Sequence[Shard],
    ports: Ports,
    settings: Settings,
) -> PlannedSkip:
    """Plans a skip, and moves nothing. `known`: see `check_stream`. Raises ShardNotFound, SeekRefused, StreamNotAdopted
    and what Stream raises.
    """
    (shard_id,) = named_shards([shard_id], ports)
    shard, lease = lease_to_skip_in(scan, shards, shard_id)
    own = check_stream(settings.application, known, scan.leases, shards, ports)
    start = read_position(lease)
    handled = ShardAsHandled.of(shard, ports, settings)
    coming = () if start is None else upcoming(shard_id, start, lease.checkpoint, ports, as_handled=handled)
    plan = plan_skip(shard, lease, coming, wanted, as_put=not settings.deaggregate)
    return PlannedSkip(plan, scan, None if own is None else own.identity)


def skip(
    found: PlannedSkip,
    destination: FailureDestination,
    snapshots: SnapshotStore,
    by: str,
    ports: Ports,
    settings: Settings,
) -> None:
    """Sets the records aside, keeps a snapshot, and moves the position. A lease that has moved on meanwhile stays where
    it is; its owner has handled the records that were set aside. Raises DestinationRefused, with nothing moved, and
    SeekRefused.
    """
    plan = found.plan
    _check_stands(plan, ports)
    destination.put(_batch(plan, by, ports, settings))
    whole = PlannedSeek(settings.application, plan.move, plan.what, found.scan, {}, found.stream)
    carry_out(whole, SeekRun(plan.move, ports, plan.what, only_from_there=True), snapshots, by)


def _check_stands(plan: SkipPlan, ports: Ports) -> None:
    """Checks that the owner has not handled the records meanwhile, before they are set aside."""
    row = ports.table.get(plan.lease.lease_key)
    if not isinstance(row, Lease) or row.position != plan.lease.position:
        raise SeekRefused(
            f"lease {plan.lease.lease_key} changed after the plan was made. Nothing was skipped. Make a new plan"
        )


def _batch(plan: SkipPlan, by: str, ports: Ports, settings: Settings) -> SetAsideBatch:
    attempts = plan.lease.attempts
    settings = settings_of_stream(settings, ports, plan.shard.shard_id)
    arn = settings.stream_arn or ports.stream.describe().identity.arn
    return SetAsideBatch(
        settings.application,
        settings.stream,
        arn,
        plan.shard.shard_id,
        plan.records,
        Condition.SKIPPED,
        attempts,
        ports.clock.now(),
        by,
        settings.handler,
        has_raised=attempts > 0,
    )
