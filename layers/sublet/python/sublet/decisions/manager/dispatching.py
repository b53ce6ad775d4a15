"""Which leases have a worker on its way, and which ticks have to scan at all.

Between a dispatch and the worker's acquire the lease table does not show that a worker was sent, and a worker takes a
second or several to start. When an execution ends, up to forty windows prompt the lease manager within that second.
Without a memory of both, forty ticks would each send workers for the same leases. All entries lapse by themselves, so a
worker that dies in between only causes a wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec import Struct

from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.protocol.lease import Lease, LeaseFence

WORKER_STARTS_WITHIN = timedelta(seconds=10)
"""Lambda's limit for a function's init. If a worker takes longer, its leases are dispatched twice and acquired once."""

PROMPTED_TICK_ENDS_WITHIN = timedelta(seconds=30)
"""Several times what a tick takes over ten thousand shards. After that a prompt starts a tick of its own again."""


class DispatchedWorker(Struct, frozen=True):
    """A worker with this id was sent for a lease whose row was then as in `seen`."""

    seen: LeaseFence
    worker_id: str
    is_steal: bool
    at: datetime


NOTHING: Mapping[str, DispatchedWorker] = MappingProxyType({})


def under_way(
    dispatched: Mapping[str, DispatchedWorker], leases: Iterable[Lease], now: datetime
) -> Mapping[str, DispatchedWorker]:
    """Returns, by lease key, the dispatches whose worker may still come: it has not acquired the lease, and its time to
    start is not over.
    """
    return {
        lease.lease_key: sent
        for lease in leases
        if (sent := dispatched.get(lease.lease_key)) is not None
        and _is_current(sent, lease)
        and is_recent(sent.at, now, WORKER_STARTS_WITHIN)
    }


def after_choices(
    dispatched: Mapping[str, DispatchedWorker], choices: Iterable[LeaseChoice], now: datetime
) -> Mapping[str, DispatchedWorker]:
    """The dispatches to remember, including leases acquired by now, since the next tick's scan may be older than the
    acquire.
    """
    recent = {key: sent for key, sent in dispatched.items() if is_recent(sent.at, now, WORKER_STARTS_WITHIN)}
    return {
        **recent,
        **{
            choice.lease.lease_key: DispatchedWorker(
                choice.lease.fence, choice.worker_id, choice.why is ClaimReason.STEAL, now
            )
            for choice in choices
        },
    }


def may_steal_as_it_stands(
    seen: LeaseFence, row: Lease, dispatched_at: datetime | None, now: datetime, failover_time: timedelta
) -> bool:
    """Whether a lease may be stolen although its owner has written a heartbeat since. A worker may take longer to start
    than the interval between two heartbeats, so a steal bound to the counter would hardly ever succeed.

    Also true if the owner has released it since, perhaps because it was asked to. This is for steals alone, which take
    from live owners: for a free or expired lease the counter is the evidence.
    """
    may_be_had = row.lease_owner in (seen.lease_owner, None) and row.checkpoint_owner is None
    return may_be_had and dispatched_at is not None and is_recent(dispatched_at, now, failover_time)


def asked_of(
    worker_ids: Collection[str], dispatched: Mapping[str, DispatchedWorker], leases: Iterable[Lease], now: datetime
) -> frozenset[str]:
    """Lease keys that these worker ids hold and that another worker is on its way to steal."""
    return frozenset(
        lease.lease_key
        for lease in leases
        if lease.actual_owner in worker_ids
        and (sent := dispatched.get(lease.lease_key)) is not None
        and sent.is_steal
        and sent.worker_id not in worker_ids
        and sent.seen.lease_owner == lease.lease_owner
        and is_recent(sent.at, now, WORKER_STARTS_WITHIN)
    )


def is_recent(at: datetime, now: datetime, within: timedelta) -> bool:
    """A time far in the future counts as long ago, so that a clock far ahead cannot block anything."""
    return abs(now - at) < within


def _is_current(sent: DispatchedWorker, lease: Lease) -> bool:
    """Whether the dispatch still applies. The owner of a lease to be stolen may heartbeat or release it before the
    thief comes.
    """
    if sent.is_steal:
        return lease.lease_owner in (sent.seen.lease_owner, None)
    return lease.fence == sent.seen
