"""Where leases stand in their shards, as moments: asked of Kinesis by one poll for one record each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from sublet.decisions.fleet_status import Position, position_of
from sublet.decisions.read_position import read_position
from sublet.errors import ShardNotFound, TransientError
from sublet.ports import PollRefusal, Ports
from sublet.protocol.lease import Lease

AT_ONCE = 10


def positions(leases: Iterable[Lease], ports: Ports) -> Mapping[str, Position]:
    """By lease key, of those that are not ended and whose shard answers: one that is read to its limit by others does not.

    Two calls a shard, one of them of its five polls a second. Raises what Stream raises, but for what passes by itself.
    """
    slots = ports.tasks.slots(AT_ONCE)

    def ask(lease: Lease) -> Position | None:
        with slots:
            return _ask(lease, ports)

    asked = [(lease, ports.tasks.spawn(partial(ask, lease))) for lease in leases]
    return {lease.lease_key: found for lease, task in asked if (found := task.result()) is not None}


def _ask(lease: Lease, ports: Ports) -> Position | None:
    at = read_position(lease)
    if at is None:
        return None
    try:
        page = ports.stream.reader(lease.shard_id, at).read(1)
    except (TransientError, ShardNotFound):
        return None
    return None if isinstance(page, PollRefusal) else position_of(lease, page, ports.clock.now())
