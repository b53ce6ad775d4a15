"""A foreign fleet on the same lease table: KCL 2.x workers that take and steal, or 3.x ones with a leader that assigns.

The rules are those of KCL's DynamoDBLeaseTaker (2.x) and LeaseAssignmentManager (3.x). A worker that dies is started
again under a new id, as Java's are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeGuard

from sublet.ports import Applied
from sublet.protocol.lease import Lease, MalformedRow
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND
from sublet.testing.simulation.world import World

from tests.doubles.java_taker import JavaSettings, to_take
from tests.simulation import java_writes
from tests.simulation.java_worker import JavaWorker


@dataclass(slots=True)
class Sightings:
    """What one worker's scans have seen: since when each counter has its value."""

    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def look(self, leases: tuple[Lease, ...], now: int) -> None:
        fresh = {}
        for lease in leases:
            known = self.seen.get(lease.lease_key)
            if known is not None and known[0] == lease.lease_counter:
                fresh[lease.lease_key] = known
            elif known is None and lease.lease_owner is None:
                fresh[lease.lease_key] = (lease.lease_counter, -(10**15))
            else:
                fresh[lease.lease_key] = (lease.lease_counter, now)
        self.seen = fresh

    def idle(self, lease: Lease, now: int) -> int:
        return now - self.seen[lease.lease_key][1]


@dataclass(slots=True)
class JavaFleet:
    world: World
    version: int
    leaves_at: int
    """When the whole fleet is switched off, for good."""
    workers: list[JavaWorker] = field(default_factory=list)
    started: int = 0
    asked: dict[str, tuple[int, Lease]] = field(default_factory=dict)
    """3.x: handoffs that the leader waits for."""

    def start(self, workers: int) -> None:
        for _ in range(workers):
            self.world.at(int(self.world.chance.uniform(0, 60) * SECOND), "launcher", self._start_worker)
        self.world.at(self.leaves_at, "launcher", self._leave)

    def _start_worker(self) -> None:
        world = self.world
        if world.scheduler.now_us >= self.leaves_at:
            return
        self.started += 1
        process = world.process(f"kcl{self.version}-{self.started}")
        process.is_java = True
        process.on_death.append(lambda: self._start_again(worker))
        world.java[process.name] = process
        worker = JavaWorker(world, process, self.version)
        self.workers.append(worker)
        worker.start()
        sightings = Sightings()
        if self.version == 2:
            worker.every(2 * worker.failover, lambda: self._take(worker, sightings))
        else:
            worker.every(10 * SECOND, lambda: self._discover(worker))
            worker.every(2 * worker.failover, lambda: self._lead(worker, sightings))

    def _start_again(self, worker: JavaWorker) -> None:
        if worker in self.workers:
            self.workers.remove(worker)
        self.world.at(self.world.scheduler.now_us + 20 * SECOND, "launcher", self._start_worker)

    def _leave(self) -> None:
        for worker in list(self.workers):
            self.world.note(worker.worker_id, "is switched off")
            self.workers.remove(worker)
            self.world.scheduler.kill(worker.process)

    # 2.x: takes free and expired leases, or else steals from the most loaded worker

    def _take(self, worker: JavaWorker, sightings: Sightings) -> None:
        leases = worker.table.scan().leases
        now = self.world.scheduler.now_us
        sightings.look(leases, now)
        idle = {lease.lease_key: sightings.idle(lease, now) * MICROSECOND for lease in leases}
        settings = JavaSettings(self.world.settings.failover_time)
        for lease in to_take(worker.worker_id, leases, idle, self.world.chance, settings):
            self._acquire(worker, lease)

    def _acquire(self, worker: JavaWorker, lease: Lease) -> None:
        result = worker.table.apply(java_writes.take(lease, worker.worker_id))
        if isinstance(result, Applied):
            worker.hold(result.lease)
        elif _is_done_before(result.row, lease, worker):
            worker.hold(result.row)

    # 3.x: one worker leads and assigns; the others discover their assignments

    def _discover(self, worker: JavaWorker) -> None:
        for lease in worker.table.scan().leases:
            if lease.lease_owner != worker.worker_id or lease.checkpoint_owner or lease.lease_key in worker.held:
                continue
            row = worker.table.get(lease.lease_key)
            if isinstance(row, Lease) and row.lease_owner == worker.worker_id and row.checkpoint_owner is None:
                worker.hold(row)

    def _lead(self, worker: JavaWorker, sightings: Sightings) -> None:
        world = self.world
        if self.workers[:1] != [worker]:
            return
        leases = worker.table.scan().leases
        now = world.scheduler.now_us
        sightings.look(leases, now)
        load = Counter(dict.fromkeys((one.worker_id for one in self.workers), 0))
        load.update(owner for lease in leases if (owner := lease.lease_owner) is not None and owner in load)
        for lease in leases:
            if lease.actual_owner is None or sightings.idle(lease, now) > worker.failover:
                target = min(sorted(load), key=lambda one: load[one])
                load[target] += 1
                worker.table.apply(java_writes.assign(lease, target))
        self._give_up_waiting(worker, now)
        if now < world.weather.calm_from and world.chance.random() < 0.6:
            self._ask(worker, leases, now)

    def _ask(self, worker: JavaWorker, leases: tuple[Lease, ...], now: int) -> None:
        """Balance: one lease moves to another worker, now and then to one of ours."""
        candidates = [lease for lease in leases if lease.lease_owner and not lease.checkpoint_owner]
        if not candidates:
            return
        lease = self.world.chance.choice(candidates)
        targets = [one.worker_id for one in self.workers] + [*self.world.settings.own_worker_ids[:1]]
        target = self.world.chance.choice(targets)
        if target != lease.lease_owner and isinstance(
            worker.table.apply(java_writes.ask_to_hand_over(lease, target)), Applied
        ):
            self.asked[lease.lease_key] = (now, lease)

    def _give_up_waiting(self, worker: JavaWorker, now: int) -> None:
        """The old owner has not drained in time: the new owner gets the lease all the same."""
        for key, (asked_at, _) in sorted(self.asked.items()):
            row = worker.table.get(key)
            if not isinstance(row, Lease) or row.checkpoint_owner is None or row.lease_owner is None:
                del self.asked[key]
            elif now - asked_at > 30 * SECOND + worker.failover:
                worker.table.apply(java_writes.assign(row, row.lease_owner))
                del self.asked[key]


def _is_done_before(row: Lease | MalformedRow | None, seen: Lease, worker: JavaWorker) -> TypeGuard[Lease]:
    """Whether the take was applied and its response lost."""
    return (
        isinstance(row, Lease)
        and row.lease_owner == worker.worker_id
        and row.lease_counter == seen.lease_counter + 1
        and row.lease_key not in worker.held
    )
