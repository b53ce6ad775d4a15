"""KCL 2.x's lease taker (Java's DynamoDBLeaseTaker) as pure functions: from a worker's scan, which leases it takes.

Rules as in its source, 2.7: ended leases count too, and a worker that is one short of the rounded fair share steals
only from one that has more than it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from sublet.decisions.time_and_chance import Chance
from sublet.protocol.lease import Lease

VERY_OLD = 3
"""In failover times: a lease idle for longer is taken whatever the fair share."""


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """With Java's defaults and names."""

    failover_time: timedelta = timedelta(seconds=10)
    max_leases_for_worker: int = 2**31 - 1
    max_leases_to_steal_at_one_time: int = 1
    enable_priority_lease_assignment: bool = True


DEFAULTS = JavaSettings()


def fair_share(leases: int, workers: int, most: int = DEFAULTS.max_leases_for_worker) -> int:
    """How many leases a worker wants in the end."""
    return min(1 if workers >= leases else -(-leases // workers), most)


def to_steal(
    held: Mapping[str, int], worker_id: str, target: int, settings: JavaSettings = DEFAULTS
) -> tuple[str, int]:
    """The victim and the number: only from the most loaded worker. `held` includes the worker itself."""
    victim = max(sorted(held), key=lambda owner: held[owner])
    need, most = target - held[worker_id], held[victim]
    if need <= 0 or most < target:
        return victim, 0
    count = min(need, most - target)
    if count == 0 and need > 1:
        count = 1
    return victim, min(count, settings.max_leases_to_steal_at_one_time)


def to_take(
    worker_id: str,
    leases: Sequence[Lease],
    idle: Mapping[str, timedelta],
    chance: Chance,
    settings: JavaSettings = DEFAULTS,
) -> list[Lease]:
    """In one run of the taker. `idle`: by lease key, how long its counter is known to have stood still."""
    by_chance = list(leases)
    chance.shuffle(by_chance)
    free = [lease for lease in by_chance if lease.lease_owner is None or idle[lease.lease_key] > settings.failover_time]
    taken = {lease.lease_key for lease in free}
    held = Counter({worker_id: 0})
    held.update(lease.lease_owner for lease in leases if lease.lease_owner and lease.lease_key not in taken)
    target = fair_share(len(leases), len(held), settings.max_leases_for_worker)
    if settings.enable_priority_lease_assignment:
        very_old = [one for one in free if idle[one.lease_key] > VERY_OLD * settings.failover_time]
        if very_old:
            return very_old[: max(settings.max_leases_for_worker - held[worker_id], 0)]
    if free:
        return free[: max(target - held[worker_id], 0)]
    if not held.total():
        return []
    victim, count = to_steal(held, worker_id, target, settings)
    return list(islice((lease for lease in by_chance if lease.lease_owner == victim), count))
