"""A process that starts under a worker id of its own goes on with the leases that an earlier run under that id left behind.

Nobody else can tell such a lease from a live one before the failover time is over. This process can: it has not acquired
it. So if it stands still for a heartbeat's time its owner is gone; and if it moves, another process has the same id, and the
two would take each other's leases for their own.
"""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.choose_leases import Choice, ClaimReason
from sublet.engine.lease_steps import look
from sublet.errors import WorkerIdInUse
from sublet.ports import Ports, Signal
from sublet.protocol.lease import Lease
from sublet.settings import Settings

LATE = timedelta(seconds=1)
"""By which a heartbeat may come late and still tell that its owner lives."""


def resume(ports: Ports, settings: Settings, stop: Signal) -> tuple[Choice, ...]:
    """Claims on what stood still; empty if there is nothing to resume, or `stop` is set. Nothing is written.

    Raises WorkerIdInUse, StreamNotAdopted, and what LeaseTable and Stream raise.
    """
    worker_id = settings.worker_id
    if worker_id is None:
        return ()
    scan = look(ports, settings).scan
    keys = [lease.lease_key for lease in scan.leases if _is_held_by(lease, worker_id)]
    before = _held(keys, worker_id, ports)
    if not before or stop.wait(settings.heartbeat_interval + LATE):
        return ()
    after = _held(list(before), worker_id, ports)
    moved = sorted(key for key, lease in after.items() if lease.fence != before[key].fence)
    if moved:
        raise WorkerIdInUse(
            f"worker id {worker_id} is in use: lease {moved[0]} of it is being heartbeaten, though not by this process; "
            "stop the other process, or give this one a worker_id of its own (by default each start has)"
        )
    return tuple(Choice(lease, worker_id, ClaimReason.EXPIRED) for lease in after.values())


def _held(keys: list[str], worker_id: str, ports: Ports) -> dict[str, Lease]:
    """As the rows stand now: a scan may be seconds old, and two of them would make a lease seem to move."""
    rows = {key: ports.table.get(key) for key in keys}
    return {key: row for key, row in rows.items() if isinstance(row, Lease) and _is_held_by(row, worker_id)}


def _is_held_by(lease: Lease, worker_id: str) -> bool:
    return lease.lease_owner == worker_id and lease.checkpoint_owner is None and not lease.is_ended
