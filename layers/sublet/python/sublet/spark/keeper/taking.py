"""Acquires a keeper's leases: reads the table and the stream, plans like every sublet lease manager, and writes.

It takes free or expired leases, up to its fair share beside other live workers, and never steals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from sublet.decisions.manager.choose_leases import LeaseChoice
from sublet.decisions.manager.fleet_kind import REPORTED_EVERY
from sublet.decisions.manager.lease_cleanup import LeaseDeletion
from sublet.decisions.manager.tick_plan import TickLook, plan_tick
from sublet.decisions.session.control import pause_of
from sublet.engine.control_watch import ControlWatch
from sublet.engine.lease.held import instant
from sublet.engine.lease.steps import (
    acquire_lease,
    begin,
    create_lease,
    delete_lease,
    is_gone,
    is_held_by,
)
from sublet.engine.manager.look import look, look_at_several
from sublet.engine.manager.several_streams import StreamWatch
from sublet.engine.manager.worker_reports import make_reports, stop_reporting
from sublet.errors import DataGap
from sublet.ports import Ports
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey
from sublet.reading.several_streams import ports_of_stream, settings_of_stream
from sublet.settings import Settings
from sublet.spark.keeper.held_leases import HeldLeases, in_portions

AGAIN = timedelta(seconds=1)
"""The pause between looks while a lease may become ours at any moment."""

WRITES_BETWEEN = 16
"""How many rows are created or deleted, one after the other, between two looks at which heartbeats are due."""

T = TypeVar("T")


@dataclass(slots=True)
class LeaseTaker:
    """Looks for leases and takes them. `holder` is this keeper's unique name; the worker id is the same in every run.

    undecided    keys of leases whose owner is not yet known to be alive or dead
    open_to_us   keys of leases that may become ours at any moment: free, as one is that is left to another worker's
                 fair share, or undecided
    has_looked   True after the first look, with its leases taken
    placements   each stream's placement at the last look; None: that of the only one
    left         keys of held leases whose stream is gone or is no longer named by the query
    """

    ports: Ports
    settings: Settings
    held: HeldLeases
    holder: str
    pool: Executor
    fail_on_data_loss: bool
    watch: ControlWatch
    undecided: frozenset[str] = frozenset()
    open_to_us: frozenset[str] = frozenset()
    has_looked: bool = False
    placements: dict[StreamKey | None, Placement] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    _first_counters: dict[str, int] = field(default_factory=dict)
    _looking: Future[TickLook] | None = None
    _look_at: datetime | None = None
    _is_reporting: bool = False
    """True if it reports to a KCL 3.x leader, as of the last look."""
    _streams: StreamWatch | None = field(init=False)

    def __post_init__(self) -> None:
        self._streams = None if self.ports.streams is None else StreamWatch(self.ports, self.settings)

    @property
    def is_due(self) -> bool:
        return self._look_at is None or self.ports.clock.steady() >= self._look_at

    def look_and_take(self, meanwhile: Callable[[], None]) -> None:
        """Looks, and takes the available leases. Calls `meanwhile` during the look. A look that is already in progress
        may have missed what the caller has just written, such as children that are read next, so a new one begins after
        it. Raises DataGap, and what LeaseTable and Stream raise.
        """
        self._finish_look(meanwhile)
        self.begin_look()
        self._finish_look(meanwhile)

    def _finish_look(self, meanwhile: Callable[[], None]) -> None:
        while self._looking is not None and not wait([self._looking], timeout=AGAIN.total_seconds()).done:
            meanwhile()
        self.take_if_seen(meanwhile)

    def begin_look(self) -> None:
        if self._looking is None:
            self._looking = self.pool.submit(self._look)

    def _look(self) -> TickLook:
        if self._streams is None:
            return look(self.ports, self.settings, self.watch)
        self._streams.pacer.begin()
        return look_at_several(self.ports, self.settings, self.watch, self._streams)

    def take_if_seen(self, meanwhile: Callable[[], None]) -> bool:
        """Acts on the look in progress, if it is done: True then. Raises its error; the next look then comes later.
        Calls `meanwhile` between writes, of which a reshard can need hundreds."""
        if self._looking is None or not self._looking.done():
            return False
        looking, self._looking = self._looking, None
        self._look_at = self.ports.clock.steady() + self.settings.heartbeat_interval
        self._take(looking.result(), meanwhile)
        return True

    def _take(self, seen: TickLook, meanwhile: Callable[[], None]) -> None:
        self.left = frozenset(lease.lease_key for lease in seen.elsewhere) & frozenset(self.held.keys)
        self.placements = {None: seen.placement}
        self.placements.update((stream, known.placement) for stream, known in seen.known_streams.items())
        plan = plan_tick(seen, self.ports.chance, self.settings)
        for row in seen.scan.malformed:
            self.ports.log.error("malformed lease row; its shard waits", lease_key=row.lease_key, problem=row.problem)
        for new in _paced(plan.sync.create, meanwhile):
            create_lease(new, self.ports)
        for deletion in _paced(plan.deletions, meanwhile):
            self._delete(deletion)
        self.ports.sightings.save(plan.sightings)
        wanted = [choice for choice in plan.choices if choice.lease.lease_key not in self.held]
        for some in in_portions(wanted):
            list(self.pool.map(self._acquire, some))
            meanwhile()
        make_reports(plan.reports, self.ports)
        self._is_reporting = plan.fleet.place is not None
        self._note_undecided(seen.scan)
        created = (new.lease for new in plan.sync.create)
        self.open_to_us = self._open_to_us([*seen.scan.leases, *created], seen.scan.malformed)
        is_changing = plan.sync.create or plan.deletions or self.open_to_us
        pause = AGAIN if is_changing else plan.others.next_look.after
        self._look_at = self.ports.clock.steady() + (min(pause, REPORTED_EVERY) if self._is_reporting else pause)
        self.has_looked = True

    def stop_reporting(self) -> None:
        """Called before the leases are released, because otherwise a KCL 3.x leader would assign more leases to this
        worker.
        """
        if self._is_reporting:
            stop_reporting(self.settings.own_worker_ids, self.ports)
            self._is_reporting = False

    def _delete(self, deletion: LeaseDeletion) -> None:
        """Deletes a lease. A fleet would count a data gap and continue; for a query, the option failOnDataLoss
        decides.
        """
        lease = deletion.lease
        if lease.lease_key in self.held:
            return
        if self._streams is not None and not self._streams.is_there(lease.lease_key):
            return  # its stream is gone: as in every application of several streams, the lease waits
        if not is_gone(deletion, self.ports):
            return
        if not lease.is_ended and self.fail_on_data_loss:
            raise DataGap(
                f"shard {lease.lease_key} is gone; its lease was handled up to {lease.checkpoint}: the rest is "
                "past retention. Set failOnDataLoss to false to delete the lease and go on"
            )
        delete_lease(deletion, self.ports)
        self.ports.metrics.flush()

    def _acquire(self, choice: LeaseChoice) -> None:
        """Acquires a lease as it was seen, and prepares it for reading, or releases it."""
        since = instant(self.ports.clock)
        row = acquire_lease(self.ports.table, choice.lease.fence, choice.worker_id, self.holder)
        if not isinstance(row, Lease) or not is_held_by(row, choice.worker_id, self.holder):
            return  # another worker was first
        key, held = row.lease_key, self.held.add(row, since)
        self.ports.log.info("lease acquired", lease_key=key, why=choice.why, checkpoint=str(row.checkpoint))
        ports, settings = ports_of_stream(self.ports, key), settings_of_stream(self.settings, self.ports, key)
        if not begin(held, ports, settings.start_position):
            self.held.release_as_they_stand([key])

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
            and not self._is_paused(lease)
        )

    def _open_to_us(self, leases: Collection[Lease], malformed: Iterable[MalformedRow]) -> frozenset[str]:
        unfinished = {lease.lease_key for lease in leases if not lease.is_ended}
        unfinished.update(row.lease_key for row in malformed)
        return frozenset(
            lease.lease_key
            for lease in leases
            if not lease.is_ended
            and lease.lease_key not in self.held
            and (lease.actual_owner is None or lease.lease_key in self.undecided)
            and unfinished.isdisjoint(lease.parent_shard_ids)
            and not self._is_paused(lease)
        )

    def _is_paused(self, lease: Lease) -> bool:
        return pause_of(self.watch.known, lease.lease_key, self.watch.now) is not None


def _paced(items: Iterable[T], meanwhile: Callable[[], None]) -> Iterator[T]:
    for count, item in enumerate(items, 1):
        yield item
        if count % WRITES_BETWEEN == 0:
            meanwhile()
