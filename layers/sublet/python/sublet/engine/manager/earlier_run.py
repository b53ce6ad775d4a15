"""Finds the leases that an earlier run under this process's own worker id left behind, before failover_time is over."""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.decisions.session.control import paused
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.look import look
from sublet.errors import WorkerIdInUse
from sublet.ports import Ports, Signal
from sublet.protocol.lease import Lease
from sublet.settings import Settings

LATE = timedelta(seconds=1)
"""A heartbeat that is this late still shows that its owner lives."""


def claims_of_earlier_run(
    ports: Ports, settings: Settings, stop: Signal, watch: ControlWatch
) -> tuple[LeaseChoice, ...]:
    """Claims on the leases that an earlier run under this process's own worker id left behind, except for paused ones.
    Writes nothing.

    Only this process can tell such a lease from a live one before failover_time is over: it knows that it has not
    acquired it. If the lease's counter stands still for a heartbeat's time, its owner is gone. If it moves, another
    process uses the same id, and the two would take each other's leases for their own. Empty if there are no such
    leases, or `stop` is set.

    Raises WorkerIdInUse, StreamNotAdopted, and what LeaseTable and Stream raise.
    """
    worker_id = settings.worker_id
    if worker_id is None:
        return ()
    if ports.streams is None:
        seen = look(ports, settings, watch)
        stopped, leases = paused(seen.control, seen.scan.leases, seen.at), seen.scan.leases
    else:
        leases = ports.table.scan().leases
        stopped = watch.pauses(leases)
    theirs = [lease.lease_key for lease in leases if _is_held_by(lease, worker_id)]
    keys = [lease_key for lease_key in theirs if lease_key not in stopped]
    before = _rows_of(keys, worker_id, ports)
    if not before or stop.wait(settings.heartbeat_interval + LATE):
        return ()
    after = _rows_of(list(before), worker_id, ports)
    moved = sorted(key for key, lease in after.items() if lease.fence != before[key].fence)
    if moved:
        raise WorkerIdInUse(
            f"worker id {worker_id} is in use: another process heartbeats lease {moved[0]} under it, not this "
            "process; stop the other process, or give this one a worker_id of its own (by default each start has)"
        )
    return tuple(LeaseChoice(lease, worker_id, ClaimReason.EXPIRED) for lease in after.values())


def _rows_of(keys: list[str], worker_id: str, ports: Ports) -> dict[str, Lease]:
    """Reads the rows now: a scan may be seconds old, and two scans could make a lease seem to move."""
    rows = {key: ports.table.get(key) for key in keys}
    return {key: row for key, row in rows.items() if isinstance(row, Lease) and _is_held_by(row, worker_id)}


def _is_held_by(lease: Lease, worker_id: str) -> bool:
    return lease.lease_owner == worker_id and lease.checkpoint_owner is None and not lease.is_ended
