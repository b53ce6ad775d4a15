"""The steps of a lease's life that are the same in every runtime: create, acquire, begin, end the shard, delete.

Each looks, asks a decision, and acts through the ports. A crash after any statement does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from sublet.decisions.manager.lease_cleanup import DeleteReason, LeaseDeletion
from sublet.decisions.manager.shard_sync import NewLease
from sublet.decisions.session.read_position import needs_pin
from sublet.decisions.session.shard_end import BlockedByParents, EndShard, may_begin, other_parents, plan_shard_end
from sublet.engine.lease.held import HeldLease
from sublet.metric_names import Metric
from sublet.ports import Applied, LeaseTable, Ports
from sublet.protocol.checkpoint import LATEST
from sublet.protocol.lease import Lease, LeaseFence, MalformedRow, lease_key_of
from sublet.protocol.lease_writes import acquire, create, delete, end, pin, set_children
from sublet.protocol.shard import ChildShard
from sublet.settings import StartPosition


def create_leases(new: Iterable[NewLease], ports: Ports) -> int:
    """One by one in KCL's order, so that the next tick can complete a sync that fails halfway. Returns how many we
    created.
    """
    return sum(create_lease(each, ports) for each in new)


def create_lease(new: NewLease, ports: Ports) -> bool:
    """True if we created it. If another worker did, nothing is lost: both create the same row."""
    if not isinstance(ports.table.apply(create(new.lease)), Applied):
        return False
    lease = new.lease
    ports.log.info("lease created", lease_key=lease.lease_key, why=new.why, checkpoint=str(lease.checkpoint))
    return True


def acquire_lease(
    table: LeaseTable,
    fence: LeaseFence,
    worker_id: str,
    holder: str,
    *,
    after_crash: bool = False,
    may_take_over: Callable[[Lease], bool] = lambda _: False,
) -> Lease | MalformedRow | None:
    """The row after the attempt; it is ours if `is_held_by` says so.

    after_crash    the owner of the row as it was seen has crashed: the row is read first, so that the crash is counted
    may_take_over  whether the owner of a row that refused the acquire has crashed too; then the row is acquired as it
                   is now
    """
    crashed = table.get(fence.lease_key) if after_crash else None
    known = crashed if isinstance(crashed, Lease) and crashed.fence == fence else None
    result = table.apply(acquire(fence, worker_id, holder, crashed=known))
    if isinstance(result, Applied):
        return result.lease
    row = result.row
    if isinstance(row, Lease) and not is_held_by(row, worker_id, holder) and may_take_over(row):
        result = table.apply(acquire(row.fence, worker_id, holder, crashed=row))
        return result.lease if isinstance(result, Applied) else result.row
    return row


def is_held_by(lease: Lease, worker_id: str, holder: str) -> bool:
    """True if this very holder has the lease. Worker id and holder are both compared: invocations share the worker id,
    and a Java worker that takes a lease leaves our holder on the row.

    A KCL 3 leader that asks for a lease writes the next owner into the row, so the owner before the handover is
    compared.
    """
    return lease.held_by == holder and lease.actual_owner == worker_id


def begin(held: HeldLease, ports: Ports, start: StartPosition) -> bool | None:
    """True if the shard may be opened; its start is then in its row, if it needs one. None: a parent has not ended.

    The parents are read from the table itself: the scan that sent us may have missed one that was created seconds
    before, by the end of a grandparent. They are read last, after the service's time, so that none is created in
    between. Without its pin nothing is opened: that would be a gap.
    """
    lease = held.lease
    if lease.is_ended or lease.checkpoint.is_sequence_number:
        return True  # the shard has begun: its parents no longer matter
    is_latest = lease.checkpoint == LATEST and lease.start_at is None
    service_time = ports.stream.service_time() if is_latest else ports.clock.now()  # a call, where it counts
    parents = [ports.table.get(lease_key_of(parent)) for parent in sorted(lease.parent_shard_ids)]
    if not may_begin(lease, parents):
        return None
    needed = needs_pin(lease, parents, start, service_time)
    return needed is None or held.write(partial(pin, at=needed.at))


def plan_end(lease: Lease, children: Sequence[ChildShard], ports: Ports) -> EndShard | BlockedByParents:
    """The plan for ending the shard; Blocked while a merge's other parent has no lease, but still has records."""
    missing = [p for p in sorted(other_parents(lease, children)) if _is_missing(p, ports)]
    plan = plan_shard_end(lease, children, missing)
    if isinstance(plan, BlockedByParents):
        ports.log.warning(
            "shard end waits for a merge's other parent",
            lease_key=lease.lease_key,
            parents=sorted(plan.missing_parents),
        )
    return plan


def _is_missing(parent: str, ports: Ports) -> bool:
    return ports.table.get(lease_key_of(parent)) is None and ports.stream.has_shard(parent)


def end_shard(held: HeldLease, plan: EndShard, ports: Ports, unmoved_since: int | None = None) -> bool:
    """The children's leases, the children's names, SHARD_END: KCL's order, so that a crash in between mends itself.

    The lease is confirmed first: during a long pause another owner may have ended it, and its children too, whose rows
    may be cleaned up by now. If they were created again, their shards would be read again.
    """
    if not held.confirm():
        return False
    for child in plan.create:
        ports.table.apply(create(child))
    name_children = partial(set_children, child_shard_ids=plan.child_shard_ids)
    return held.write(name_children, unmoved_since) and held.write(end, unmoved_since)


def is_gone(deletion: LeaseDeletion, ports: Ports) -> bool:
    """Whether the shard is gone. Asks for the shard itself if it is not listed, since a listing may lag behind."""
    return deletion.why is not DeleteReason.GARBAGE or not ports.stream.has_shard(deletion.lease.shard_id)


def delete_lease(deletion: LeaseDeletion, ports: Ports) -> bool:
    """True if we deleted the lease. If it was not read to its end, its records are lost: a data gap. This is also
    reported if the row has gone already: the answer to our first request may have been lost, and two managers' reports
    are better than none.
    """
    lease = deletion.lease
    result = ports.table.apply(delete(lease))
    is_ours = isinstance(result, Applied)
    is_gone_now = isinstance(result, Applied) or result.row is None
    if is_ours and lease.is_ended:
        ports.log.info("lease deleted", lease_key=lease.lease_key, why=deletion.why)
    elif is_gone_now and not lease.is_ended:
        ports.metrics.put(Metric.DATA_GAP, 1, shard_id=lease.shard_id)
        ports.log.error(
            "data gap: the shard's records are past retention, and it was never read to its end",
            lease_key=lease.lease_key,
            checkpoint=str(lease.checkpoint),
        )
    return is_ours
