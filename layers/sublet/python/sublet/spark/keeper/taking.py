"""How a keeper comes by leases: a look at the table and the stream, the plan of every sublet lease manager, and its writes.

It takes what is free or expired, up to its fair share beside other live workers, and never steals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.chance import Chance
from sublet.decisions.choose_leases import Choice
from sublet.decisions.lease_cleanup import DeleteReason, Deletion
from sublet.decisions.liveness import Sighting
from sublet.decisions.read_position import needs_pin
from sublet.decisions.shard_end import may_begin
from sublet.decisions.tick_plan import Look, plan_tick
from sublet.errors import DataGap
from sublet.ports import Applied, Clock, LeaseTable, Log, Stream
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import acquire, create, delete, pin
from sublet.protocol.shard import Shard
from sublet.settings import Settings
from sublet.spark.keeper.held_leases import HeldLeases
from sublet.spark.plan.holding import Holding

AGAIN = timedelta(seconds=1)
"""Until the next look, while there is a lease that may become ours at any moment."""


@dataclass(slots=True)
class Taker:
    """`holder`: this keeper's own name, which no other has. The worker id is the application's: the same in every run.

    undecided    lease keys of which it is not known yet whether their owner lives
    has_looked   at least once, and taken what was there
    """

    table: LeaseTable
    stream: Stream
    clock: Clock
    chance: Chance
    log: Log
    settings: Settings
    held: HeldLeases
    holder: str
    pool: Executor
    fail_on_data_loss: bool
    undecided: frozenset[str] = frozenset()
    has_looked: bool = False
    _sightings: Mapping[str, Sighting] = field(default_factory=dict)
    _first_counters: dict[str, int] = field(default_factory=dict)
    _looking: Future[tuple[LeaseScan, Sequence[Shard]]] | None = None
    _look_at: datetime | None = None

    @property
    def is_due(self) -> bool:
        return self._look_at is None or self.clock.now() >= self._look_at

    def look_and_take(self, meanwhile: Callable[[], None]) -> None:
        """Look, and take what is there to be taken; `meanwhile` is called as long as the look lasts.

        Raises DataGap, and what LeaseTable and Stream raise.
        """
        self.begin_look()
        while self._looking is not None and not wait([self._looking], timeout=AGAIN.total_seconds()).done:
            meanwhile()
        self.take_if_seen()

    def begin_look(self) -> None:
        if self._looking is None:
            self._looking = self.pool.submit(self._look)

    def take_if_seen(self) -> None:
        """Act on the look that was begun, if it is done. Raises what it raised; then the next one is a while off."""
        if self._looking is None or not self._looking.done():
            return
        looking, self._looking = self._looking, None
        self._look_at = self.clock.now() + self.settings.heartbeat_interval
        scan, shards = looking.result()
        self._take(scan, shards)

    def _look(self) -> tuple[LeaseScan, Sequence[Shard]]:
        """Leases before shards: a shard that appears in between has no lease yet, which is right, not an orphan."""
        scan = self.table.scan()
        is_empty = not scan.leases and not scan.malformed
        return scan, self.stream.list_shards(at=self.settings.start_position if is_empty else None)

    def _take(self, scan: LeaseScan, shards: Sequence[Shard]) -> None:
        now = self.clock.now()
        plan = plan_tick(Look(scan, shards, self._sightings), now, self.chance, self.settings)
        self._sightings = plan.sightings
        for row in scan.malformed:
            self.log.error(
                "malformed lease row; its shard waits", lease_key=row.lease_key, problem=row.problem
            )
        for new in plan.sync.create:
            self.table.apply(create(new.lease))
        for deletion in plan.deletions:
            self._delete(deletion)
        wanted = [choice for choice in plan.choices if choice.lease.lease_key not in self.held]
        list(self.pool.map(self._acquire, wanted))
        self._note_undecided(scan)
        is_changing = plan.sync.create or plan.deletions or self._wants_more(scan)
        self._look_at = now + (AGAIN if is_changing else self.settings.failover_time * 2 / 3)
        self.has_looked = True

    def _delete(self, deletion: Deletion) -> None:
        """Garbage is only a suspicion until the service itself has denied the shard: a listing may lag."""
        lease = deletion.lease
        key, is_loss = lease.lease_key, not lease.is_ended
        if key in self.held or (deletion.why is DeleteReason.GARBAGE and self.stream.has_shard(key)):
            return
        if is_loss and self.fail_on_data_loss:
            raise DataGap(
                f"shard {key} is gone, which was handled up to {lease.checkpoint} by its lease: what was left is past "
                "retention. Set failOnDataLoss to false to delete the lease and go on"
            )
        if isinstance(self.table.apply(delete(lease)), Applied) and is_loss:
            self.log.error("records lost", lease_key=key, checkpoint=str(lease.checkpoint))

    def _acquire(self, choice: Choice) -> None:
        """Acquire a lease as it was seen, and pin its start if its row does not name it."""
        sent_at = self.clock.now()
        result = self.table.apply(acquire(choice.lease.fence, choice.worker_id, self.holder))
        row = result.lease if isinstance(result, Applied) else result.row
        if not isinstance(row, Lease) or row.holder != self.holder or row.lease_owner != choice.worker_id:
            return  # somebody else was first
        key = row.lease_key
        self.held.add(Holding(row, sent_at))
        self.log.info("lease acquired", lease_key=key, why=choice.why, checkpoint=str(row.checkpoint))
        parents = self._parents(row)
        needed = needs_pin(row, parents, self.settings.start_position, sent_at)
        if not may_begin(row, parents) or (needed and not self.held.write(key, partial(pin, at=needed.at))):
            self.held.give_up([key])

    def _parents(self, row: Lease) -> list[Lease | MalformedRow | None]:
        """Asked of the table itself: the scan may have missed a parent that was created a second before."""
        if row.checkpoint.is_sequence_number:
            return []  # nobody asks any more
        return [self.table.get(parent) for parent in sorted(row.parent_shard_ids)]

    def _note_undecided(self, scan: LeaseScan) -> None:
        first = self._first_counters
        for lease in scan.leases:
            first.setdefault(lease.lease_key, lease.lease_counter)
        self.undecided = frozenset(
            lease.lease_key
            for lease in scan.leases
            if not lease.is_ended
            and lease.lease_key not in self.held
            and lease.actual_owner is not None
            and first[lease.lease_key] == lease.lease_counter
        )

    def _wants_more(self, scan: LeaseScan) -> bool:
        """Whether a lease may become ours at any moment: a free one, or one whose owner may have gone."""
        unfinished = {lease.lease_key for lease in scan.leases if not lease.is_ended}
        return any(
            (lease.actual_owner is None or lease.lease_key in self.undecided)
            and unfinished.isdisjoint(lease.parent_shard_ids)
            for lease in scan.leases
            if not lease.is_ended and lease.lease_key not in self.held
        )
