"""Asks Kinesis how far leases are handled, in time: for an operator and the pull API. No tick does this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from sublet.decisions.session.handled_position import HandledPosition, position_of
from sublet.decisions.session.read_position import is_unopened, read_position
from sublet.errors import CheckpointNotInStream, ShardNotFound, TransientError
from sublet.ports import Ports, Refusal
from sublet.protocol.lease import Lease

AT_ONCE = 10


def positions(leases: Iterable[Lease], ports: Ports) -> Mapping[str, HandledPosition]:
    """Positions by lease key, for unfinished leases whose shards answer. A shard does not answer if its read limit is
    used up, or if the lease belongs to another stream. A lease at LATEST that was not opened has no position yet.

    Makes two calls for each shard, one of which counts against its five polls a second. Raises what Stream raises,
    except transient errors.
    """
    slots = ports.tasks.slots(AT_ONCE)

    def ask(lease: Lease) -> HandledPosition | None:
        with slots:
            return _ask(lease, ports)

    asked = [(lease, ports.tasks.spawn(partial(ask, lease))) for lease in leases]
    return {lease.lease_key: found for lease, task in asked if (found := task.result()) is not None}


def _ask(lease: Lease, ports: Ports) -> HandledPosition | None:
    at = read_position(lease)
    if at is None or is_unopened(lease):
        return None
    try:
        page = ports.stream.reader(lease.shard_id, at).read(1)
    except (TransientError, ShardNotFound, CheckpointNotInStream):
        return None
    return None if isinstance(page, Refusal) else position_of(lease, page, ports.clock.now())
