"""The keeper of a query's leases: it acquires them, heartbeats, checkpoints what Spark has committed, ends shards in
KCL's order, and releases everything when the query is over.

Not thread-safe: one thread calls it all (`keeper_thread`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from sublet.decisions.patience import NOTHING_YET, WORKED, RefusalStreak
from sublet.decisions.session.control import pause_of
from sublet.decisions.session.read_position import SHORTEST_RETENTION
from sublet.engine.control_watch import ControlWatch
from sublet.errors import CallFailed, SettingsError
from sublet.metric_names import Metric
from sublet.ports import Ports
from sublet.protocol.control import Pause
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Settings
from sublet.spark.keeper.checkpoint_folder import QueryCommits
from sublet.spark.keeper.held_leases import HeldLeases
from sublet.spark.keeper.taking import LeaseTaker
from sublet.spark.plan.committed import read_on
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Ended, Offset, ShardOffset
from sublet.spark.read.pace import Sleep

WRITES_AT_ONCE = 16
PAUSE = timedelta(milliseconds=500)

ASKED_WITHIN = SHORTEST_RETENTION / 2
"""A query that makes no request for this long loses its leases. It is long because a batch may take long, and so may
the wait for the next trigger. The next owner then has as much time again before the first unread record is past
retention.
"""

FIRST_PLAN_WITHIN = timedelta(minutes=10)
"""The same before a query's first plan, when there is no batch and no wait for a trigger."""


class LeaseKeeping(Protocol):
    """What a source calls, which is a keeper or a proxy for one."""

    def held(self, committed: Offset) -> Mapping[str, Lease]: ...

    def rows(self, shard_ids: Sequence[str]) -> Mapping[str, Lease | MalformedRow]: ...

    def pauses(self, shard_ids: Collection[str]) -> Mapping[str, Pause]: ...

    def looked(self, found: Mapping[str, ShardLook]) -> None: ...

    def planned(self, end: Offset) -> None: ...

    def planned_nothing(self) -> None: ...

    def unsettled(self) -> frozenset[str] | None: ...

    def placement_of(self, stream: StreamKey | None) -> Placement: ...


@dataclass(slots=True)
class Keeper:
    """Keeps a query's leases. `settings.worker_id` is the same in every run of the query; `holder` is unique to this
    keeper.
    """

    ports: Ports
    commits: QueryCommits
    sleep: Sleep
    settings: Settings
    holder: str
    fail_on_data_loss: bool
    _committed: Offset | None = None
    _planned: Offset | None = None
    """The end of the current batch, which may also have been committed by now."""
    _is_planning: bool = False
    """True while the source may still plan a batch of the leases that `held` has returned."""
    _refusals: RefusalStreak = NOTHING_YET
    """Of looks."""
    _is_checked: bool = False
    _asked_at: datetime = field(init=False)
    _held: HeldLeases = field(init=False)
    _taker: LeaseTaker = field(init=False)
    _watch: ControlWatch = field(init=False)
    _pool: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, WRITES_AT_ONCE))

    def __post_init__(self) -> None:
        self._asked_at = self.ports.clock.steady()
        self._held = HeldLeases(self.ports, self.settings, self._pool)
        self._watch = ControlWatch(self.ports)
        self._taker = LeaseTaker(
            self.ports,
            self.settings,
            self._held,
            holder=self.holder,
            pool=self._pool,
            fail_on_data_loss=self.fail_on_data_loss,
            watch=self._watch,
        )

    # Called by the source.

    def held(self, committed: Offset) -> Mapping[str, Lease]:
        """Called when Spark has committed everything up to `committed`: checkpoints it, and ends shards that have
        ended. Returns the leases whose shards may be read in the next batch, by shard id; none of them is given up
        before the source says what it has planned. One that is lost meanwhile is lost in mid-batch: its new owner may
        repeat the batch. Raises SettingsError if the checkpoint folder is not this query's, DataGap, and what
        LeaseTable and Stream raise. After the first look at the leases, failures raise only if waiting does not help,
        or has not (`decisions.patience`).
        """
        self._asked_at, self._is_planning = self.ports.clock.steady(), False
        self._check_folder(committed)
        self._commit(committed)
        self._write_due()
        if self._held.end_those(self._offsets, self._write_due) or self._taker.is_due:
            self._look()
            self._write_due()  # the row of a lease taken may say less than this query has committed
        self._release_unread()
        self._is_planning = True
        return {key: lease for key, lease in self._held.readable.items() if not self._is_read_to_end(key)}

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        """Takes what the last plan has found, by shard id. The next writes to the leases' rows report it."""
        self._held.note_looks(found)

    def planned(self, end: Offset) -> None:
        """Called when a batch that ends there is about to run."""
        self._asked_at, self._planned, self._is_planning = self.ports.clock.steady(), end, False

    def planned_nothing(self) -> None:
        """Called when there is nothing to read: no batch runs before the next call of `held`."""
        self._is_planning = False

    def rows(self, shard_ids: Sequence[str]) -> Mapping[str, Lease | MalformedRow]:
        """The current rows of these shards, with any owner. Those that are missing are left out."""
        rows = self._pool.map(self.ports.table.get, shard_ids)
        return {row.lease_key: row for row in rows if row is not None}

    def pauses(self, shard_ids: Collection[str]) -> Mapping[str, Pause]:
        """The operator's pause of each of these leases that is paused, as far as it is known."""
        control, now = self._watch.current(), self._watch.now
        return {key: pause for key in shard_ids if (pause := pause_of(control, key, now)) is not None}

    def unsettled(self) -> frozenset[str] | None:
        """Takes the available leases. Returns the keys of those that may become ours at any moment, and of those of
        shards that are read to their ends and cannot be ended yet; the others are ours, have a live owner, or wait for
        a parent. None: the look has failed. Raises what `held` raises."""
        self._asked_at = self.ports.clock.steady()
        self._held.end_those(self._offsets, self._write_due)
        if not self._look():
            return None
        return self._taker.open_to_us.union(filter(self._is_read_to_end, self._held.keys))

    def placement_of(self, stream: StreamKey | None) -> Placement:
        """The stream's placement at the last look, described by this query or another process of the application.
        None: its only stream. Thread-safe.
        """
        return self._taker.placements.get(stream, NOT_DESCRIBED)

    # Independent of the source's calls.

    def work(self) -> None:
        """Does what is due: heartbeats, checkpoints that failed before, and looks after the first, which `held` makes.
        Call it at least ten times per heartbeat_interval. Logs errors, which the source's own calls raise."""
        if self._is_forgotten():
            self._let_go()
            return
        if self._planned is not None and self._held.is_heartbeat_due and self.commits.has(self._planned):
            self._commit(self._planned)
        self._write_due()
        self._release_unread()
        try:
            if self._taker.take_if_seen(self._write_due):
                self._refusals = WORKED
        except CallFailed as problem:
            self._has_failed(problem)
        if self._taker.has_looked and self._taker.is_due:
            self._taker.begin_look()

    def finish(self) -> None:
        """Ends the keeper with the query: checkpoints exactly what the query committed, and releases everything, within
        failover_time.
        """
        self._release_all()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _release_unread(self) -> None:
        """Checkpoints and releases the leases that an operator has paused, and those of streams that the query no
        longer reads. It does so only between two batches, because a batch needs its leases.
        """
        if self._may_be_read or not self._held.keys:
            return
        stopped = self.pauses(self._held.keys)
        for key, pause in stopped.items():
            self.ports.log.info(
                "releasing a lease that an operator has paused", lease_key=key, order=pause.order, by=pause.by
            )
        left = self._taker.left.intersection(self._held.keys)
        for key in sorted(left):
            self.ports.log.info("releasing a lease whose stream is gone or no longer named", lease_key=key)
        if stopped or left:
            self._held.checkpoint_and_release(self._offsets, {*stopped, *left})

    def _is_forgotten(self) -> bool:
        """True if the query has probably ended without notice: Spark does not stop the source of a query that failed
        between its sources' preparations and its first plan."""
        bound = FIRST_PLAN_WITHIN if self._committed is None else ASKED_WITHIN
        return self.ports.clock.steady() - self._asked_at > bound

    def _let_go(self) -> None:
        """Releases the leases until the next request, which takes leases again."""
        if self._held.keys:
            self.ports.log.warning(
                "releasing all leases: the query has made no request for too long", since=str(self._asked_at)
            )
            self._release_all()

    def _release_all(self) -> None:
        self._taker.stop_reporting()
        if self._planned is not None:
            is_committed = self.commits.has(self._planned)
            if is_committed is None:
                self.ports.log.warning("unknown whether the last batch was committed: it may be read again")
            if is_committed:
                self._commit(self._planned)
        deadline = self.ports.clock.steady() + self.settings.failover_time
        while self._held.keys and self.ports.clock.steady() < deadline:
            self._held.checkpoint_and_release(self._offsets, self._held.keys)
            if self._held.keys:
                self.sleep(PAUSE)
        self._held.release_as_they_stand(
            self._held.keys
        )  # the next owner reads some records again, but does not have to wait

    def _is_read_to_end(self, key: str) -> bool:
        shard = self._offsets.get(key)
        return shard is not None and isinstance(shard.position, Ended)

    @property
    def _offsets(self) -> Mapping[str, ShardOffset]:
        return {} if self._committed is None else self._committed.shards

    def _commit(self, to: Offset) -> None:
        before, self._committed, self._planned = self._committed, to, None
        if before != to:
            self._write_due()
            if before is not None:
                self._held.write_late(read_on(before.shards, to.shards))

    def _look(self) -> bool:
        """False if it has failed."""
        try:
            self._taker.look_and_take(self._write_due)
        except CallFailed as problem:
            if not self._taker.has_looked or self._has_failed(problem):
                raise
            return False
        self._refusals = WORKED
        return True

    def _has_failed(self, problem: CallFailed) -> bool:
        """Notes that a look has failed. True if the query should end."""
        now = self.ports.clock.steady()
        self._refusals = self._refusals.after(problem, now)
        self.ports.log.warning("refresh failed; will retry", error=type(problem).__name__, problem=str(problem))
        if self._refusals.since is not None:
            self.ports.metrics.put(Metric.TICKS_REFUSED, 1)
        return self._refusals.is_over(problem, now, self.settings.refusal_patience)

    def _write_due(self) -> None:
        self._held.write_due(self._offsets, in_doubt=self._may_be_read)

    @property
    def _may_be_read(self) -> bool:
        """True from what `held` returns to the commit of the batch that is planned of it, if there is one."""
        return self._is_planning or self._planned is not None

    def _check_folder(self, committed: Offset) -> None:
        """Checks once, at the first batch that Spark reports as committed, that the folder shows that commit too, if it
        can be read."""
        if self._is_checked or not committed.shards:
            return
        self._is_checked = True
        is_committed, location = self.commits.has(committed), self.commits.location
        if is_committed is False:
            raise SettingsError(
                "checkpointLocation",
                location,
                "the same as for writeStream: the folder given has no commit of the batch that this query continues "
                "from. Without a scheme, the driver's own disk is read",
            )
        if is_committed is None and location is not None:
            self.ports.log.warning(
                "the query's commits cannot be read: its last batch will count as not committed. Without a scheme, "
                "the driver's own disk is read",
                checkpointLocation=location,
            )
