"""A lease table on which many workers decide, each for itself: only decisions and conditional writes, tick after tick.

Workers in the same of a tick's `phases` see the same table; of those that claim the same lease the first gets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from sublet.decisions.manager.choose_leases import choose_leases
from sublet.decisions.manager.group_balance import group_of
from sublet.decisions.manager.liveness import Sighting
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.settings import Settings

from tests.doubles.java_taker import JavaSettings, to_take

BEGINNING = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
ZERO = timedelta(0)


def cluster(group: str, workers: int) -> list[str]:
    return [f"{group}:{number}" for number in range(workers)]


@dataclass
class BalanceWorld:
    """sublet and java: the live worker ids, by what decides for them. `rates`: throughput by lease key."""

    leases: int
    settings: Settings
    sublet: list[str] = field(default_factory=list)
    java: list[str] = field(default_factory=list)
    phases: int = 5
    rates: dict[str, float] = field(default_factory=dict)
    chance: Random = field(default_factory=lambda: Random(1))

    def __post_init__(self) -> None:
        self.now = BEGINNING
        self.table = {
            (key := f"{number:05}"): Lease(key, Checkpoint("5"), throughput_kbps=self.rates.get(key))
            for number in range(self.leases)
        }
        self.dead: set[str] = set()

    def give(self, worker_ids: Iterable[str], each: int) -> None:
        """Gives each of them this many leases, in order."""
        free = (key for key, lease in self.table.items() if lease.lease_owner is None)
        for worker_id in worker_ids:
            for _ in range(each):
                self._acquire(next(free), worker_id)

    def die(self, worker_ids: Iterable[str]) -> None:
        """Without releasing anything."""
        gone = set(worker_ids)
        self.dead |= gone
        self.sublet = [one for one in self.sublet if one not in gone]
        self.java = [one for one in self.java if one not in gone]

    def join(self, worker_ids: Iterable[str]) -> None:
        self.sublet += worker_ids

    def tick(self) -> int:
        """All workers decide once. Returns how many leases have moved."""
        self.now += self.settings.failover_time * 2 / 3
        order = self.chance.sample(self.sublet + self.java, len(self.sublet) + len(self.java))
        size = -(-len(order) // self.phases)
        return sum(self._phase(order[first : first + size]) for first in range(0, len(order), max(size, 1)))

    def settle(self, at_most: int = 60) -> int:
        """Ticks until nothing moves in three in a row."""
        quiet = 0
        for number in range(1, at_most + 1):
            quiet = 0 if self.tick() else quiet + 1
            if quiet == 3:
                return number - 3
        raise AssertionError(f"still moving after {at_most} ticks: {self.by_group()}")

    def held(self) -> Counter[str]:
        return Counter(lease.lease_owner for lease in self.table.values() if lease.lease_owner)

    def by_group(self) -> Counter[str]:
        return Counter(group_of(lease.lease_owner, self.settings) for lease in self.table.values() if lease.lease_owner)

    def load(self) -> dict[str, float]:
        """By live worker."""
        load = dict.fromkeys(self.sublet + self.java, 0.0)
        for lease in self.table.values():
            if lease.lease_owner in load:
                load[lease.lease_owner] += lease.throughput_kbps or 0
        return load

    def _phase(self, worker_ids: list[str]) -> int:
        seen = list(self.table.values())
        gone = timedelta(hours=1)
        idle = {lease.lease_key: gone if self._is_free(lease) else ZERO for lease in seen}
        sightings = {
            lease.lease_key: Sighting(lease.lease_counter, lease.lease_owner, self.now - idle[lease.lease_key])
            for lease in seen
        }
        moved = 0
        for worker_id in worker_ids:
            for lease in self._wanted(worker_id, seen, idle, sightings):
                if self.table[lease.lease_key] is lease:
                    self._acquire(lease.lease_key, worker_id)
                    moved += 1
        return moved

    def _is_free(self, lease: Lease) -> bool:
        return lease.lease_owner is None or lease.lease_owner in self.dead

    def _wanted(
        self,
        worker_id: str,
        seen: list[Lease],
        idle: dict[str, timedelta],
        sightings: dict[str, Sighting],
    ) -> list[Lease]:
        if worker_id in self.java:
            return to_take(worker_id, seen, idle, self.chance, JavaSettings(failover_time=self.settings.failover_time))
        chosen = choose_leases(seen, sightings, self.now, self.chance, self.settings, [worker_id])
        return [choice.lease for choice in chosen.choices]

    def _acquire(self, lease_key: str, worker_id: str) -> None:
        """Java leaves attributes that it does not know."""
        lease = self.table[lease_key]
        taken = replace(lease, lease_owner=worker_id, lease_counter=lease.lease_counter + 1)
        if worker_id not in self.java:
            taken = replace(taken, holder=f"{worker_id}/window-1", holder_counter=taken.lease_counter)
        self.table[lease_key] = taken
