"""The keeper of a query's leases: it takes them, heartbeats, checkpoints what Spark has committed, ends shards in KCL's order,
and gives everything back when the query is over.

Nothing here knows of threads: one calls it all (`keeper_thread`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from sublet.decisions.read_position import SHORTEST_RETENTION
from sublet.errors import (
    LeaseTableError,
    SettingsError,
    StreamError,
    TransientError,
)
from sublet.ports import Ports
from sublet.protocol.lease import Lease
from sublet.protocol.stream_info import Placement
from sublet.settings import Settings
from sublet.spark.keeper.checkpoint_folder import Commits
from sublet.spark.keeper.held_leases import HeldLeases
from sublet.spark.keeper.taking import Taker
from sublet.spark.plan.committed import read_on
from sublet.spark.plan.offsets import Ended, Offset, ShardOffset
from sublet.spark.read.pace import Sleep

WRITES_AT_ONCE = 16
PAUSE = timedelta(milliseconds=500)

ASKED_WITHIN = SHORTEST_RETENTION / 2
"""A batch may take long, and so may the wait for the next trigger. A query that has asked nothing for so long lets its leases
go: whoever is next has as long again before the first unread record is past retention."""

FIRST_PLAN_WITHIN = timedelta(minutes=10)
"""Before a query's first plan there is neither."""


class Keeping(Protocol):
    """What a source asks: a keeper, or the way to one."""

    def held(self, committed: Offset) -> Mapping[str, Lease]: ...

    def rows(self, shard_ids: Sequence[str]) -> Mapping[str, Lease]: ...

    def planned(self, end: Offset) -> None: ...

    def has_settled(self) -> bool: ...

    @property
    def placement(self) -> Placement: ...


@dataclass(slots=True)
class Keeper:
    """`settings.worker_id`: the query's, the same in every run. `holder`: this keeper's own name, which no other has."""

    ports: Ports
    commits: Commits
    sleep: Sleep
    settings: Settings
    holder: str
    fail_on_data_loss: bool
    _committed: Offset | None = None
    _planned: Offset | None = None
    """The end of the batch that is under way, or may have been committed by now."""
    _is_checked: bool = False
    _asked_at: datetime = field(init=False)
    _held: HeldLeases = field(init=False)
    _taker: Taker = field(init=False)
    _pool: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, WRITES_AT_ONCE))

    def __post_init__(self) -> None:
        self._asked_at = self.ports.clock.steady()
        self._held = HeldLeases(self.ports, self.settings, self._pool)
        self._taker = Taker(
            self.ports, self.settings, self._held, self.holder, self._pool, self.fail_on_data_loss
        )

    # What the source asks.

    def held(self, committed: Offset) -> Mapping[str, Lease]:
        """Spark has committed everything up to `committed`: it is checkpointed, and what has ended is ended. Then the leases
        whose shards may be read in the next batch, by shard id.

        Raises SettingsError when the checkpoint folder is not this query's, DataGap, and what LeaseTable and Stream raise;
        but once it has looked, not because they are out of reach for a while.
        """
        self._asked_at = self.ports.clock.steady()
        self._check_folder(committed)
        self._commit(committed)
        self._write_due()
        if self._held.end_those(self._offsets) or self._taker.is_due:
            self._look()
            self._write_due()  # taken with less in the row than this query has committed
        offsets = self._offsets
        return {
            key: lease
            for key, lease in self._held.readable.items()
            if key not in offsets or not isinstance(offsets[key].position, Ended)
        }

    def planned(self, end: Offset) -> None:
        """A batch that ends there is about to be run."""
        self._asked_at, self._planned = self.ports.clock.steady(), end

    def rows(self, shard_ids: Sequence[str]) -> Mapping[str, Lease]:
        """Leases as they stand, whoever holds them; one that has no row, or no readable one, is left out."""
        rows = self._pool.map(self.ports.table.get, shard_ids)
        return {row.lease_key: row for row in rows if isinstance(row, Lease)}

    def has_settled(self) -> bool:
        """Take what is there; whether it is known by now of every lease that its owner lives, or that it is ours. Raises what
        `held` raises."""
        self._asked_at = self.ports.clock.steady()
        self._taker.look_and_take(self._write_due)
        return not self._taker.undecided

    @property
    def placement(self) -> Placement:
        """As of the last look: how the stream is described, and was by others of the application. May be asked on any thread."""
        return self._taker.placement

    # What goes on without it.

    def work(self) -> None:
        """What is due: heartbeats, checkpoints that failed before, and after the first look, which is for who asks, another.
        Wants to be called at least ten times in a heartbeat_interval. What is refused is logged: who asks is told."""
        if self._is_forgotten():
            self._let_go()
            return
        if self._planned is not None and self._held.is_heartbeat_due and self.commits.has(self._planned):
            self._commit(self._planned)
        self._write_due()
        try:
            self._taker.take_if_seen()
        except (LeaseTableError, StreamError) as problem:
            self.ports.log.warning("look failed; the next one tries again", problem=str(problem))
        if self._taker.has_looked and self._taker.is_due:
            self._taker.begin_look()

    def finish(self) -> None:
        """The query is over: checkpoint exactly what it committed, and release everything, for at most failover_time."""
        self._give_back()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_forgotten(self) -> bool:
        """Whether the query may be over although nobody has said so: Spark stops no source of a query that failed between its
        sources' preparations and its first plan."""
        bound = FIRST_PLAN_WITHIN if self._committed is None else ASKED_WITHIN
        return self.ports.clock.steady() - self._asked_at > bound

    def _let_go(self) -> None:
        """Until it is asked again, which takes leases anew."""
        if self._held.keys:
            self.ports.log.warning(
                "leases released: the query has long asked nothing", since=str(self._asked_at)
            )
            self._give_back()

    def _give_back(self) -> None:
        self._taker.stop_reporting()
        if self._planned is not None:
            is_committed = self.commits.has(self._planned)
            if is_committed is None:
                self.ports.log.warning(
                    "nobody can say whether the last batch was committed: it may come again"
                )
            if is_committed:
                self._commit(self._planned)
        deadline = self.ports.clock.steady() + self.settings.failover_time
        while self._held.keys and self.ports.clock.steady() < deadline:
            self._held.checkpoint_and_release(self._offsets)
            if self._held.keys:
                self.sleep(PAUSE)
        self._held.release_as_they_stand(
            self._held.keys
        )  # whoever is next reads some of it again, and need not wait

    @property
    def _offsets(self) -> Mapping[str, ShardOffset]:
        return {} if self._committed is None else self._committed.shards

    def _commit(self, to: Offset) -> None:
        before, self._committed, self._planned = self._committed, to, None
        if before != to:
            self._write_due()
            if before is not None:
                self._held.write_late(read_on(before.shards, to.shards))

    def _look(self) -> None:
        try:
            self._taker.look_and_take(self._write_due)
        except TransientError as problem:
            if not self._taker.has_looked:
                raise
            self.ports.log.warning("look failed; the next one tries again", problem=str(problem))

    def _write_due(self) -> None:
        self._held.write_due(self._offsets, in_doubt=self._planned is not None)

    def _check_folder(self, committed: Offset) -> None:
        """Once, at the first batch that Spark says is committed: then the folder has to say so too."""
        if self._is_checked or not committed.shards:
            return
        self._is_checked = True
        if self.commits.has(committed) is False:
            raise SettingsError(
                "checkpointLocation",
                None,
                "the same as for writeStream: the folder given has no commit of the batch that this query goes on from",
            )
