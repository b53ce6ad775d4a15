"""A query's leases as its driver sees them: what it asks its keeper, and what the answers mean for a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sublet.errors import LeaseHeldElsewhere
from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard
from sublet.spark.keeper.keeper_messages import Keeping
from sublet.spark.options import Options
from sublet.spark.plan.joining import joining_positions, resume_ranges
from sublet.spark.plan.offsets import Offset, ShardOffset, offset_to_json
from sublet.spark.plan.planning import ShardRange, other_listed_parents
from sublet.spark.read.connection import Connection

WITHOUT_LEASES = timedelta(milliseconds=500)
"""Between two looks of a query that waits for leases."""


class QueryLeases:
    """`held`: by shard id, as of the last plan. Of other shards nothing is read, and their places in the offset stay put."""

    def __init__(self, keeper: Keeping, connection: Connection, options: Options) -> None:
        self.held: Mapping[str, Lease] = {}
        self._keeper = keeper
        self._connection = connection
        self._options = options
        self._planned: Offset | None = None

    def settle(self) -> None:
        """See `Keeper.settle`."""
        self._keeper.settle()

    def committed(self, start: Offset) -> None:
        """Spark plans the batch after `start`: so that is committed."""
        self.held = self._keeper.held(start)

    def planned(self, end: Offset) -> None:
        """A batch up to there is about to be run. Told before Spark knows of it, so that the keeper knows of each that runs."""
        self._planned = end
        self._keeper.planned(end)

    def joining(self, start: Offset, now: datetime) -> dict[str, ShardOffset]:
        """The shards that a batch from `start` begins with anew; waits a little when there is nothing at all to read."""
        joining = joining_positions(start, self.held, now)
        if not joining and not start.shards:
            self._connection.sleep(WITHOUT_LEASES)
        return joining

    def blocked(self, shards: Iterable[Shard], listed: Mapping[str, Shard]) -> frozenset[str]:
        """Closed shards that cannot be ended yet, because a merge's other parent has no lease (KCL): their child would start
        without its records. They are read to their last record, which can be checkpointed, and ended later."""
        others = {
            shard.shard_id: other_listed_parents(shard.shard_id, listed.values()) & listed.keys()
            for shard in shards
            if not shard.is_open
        }
        asked = frozenset[str]().union(*others.values())
        missing = asked - self._keeper.rows(sorted(asked)).keys() if asked else asked
        return frozenset(shard_id for shard_id, parents in others.items() if parents & missing)

    def resume(self, ranges: Sequence[ShardRange], start: Offset, end: Offset) -> Sequence[ShardRange]:
        """The ranges of a batch: as they are when this process planned it. One of the log is done again: what is left of it,
        once each of its leases is ours or past it.

        Raises LeaseHeldElsewhere when that takes longer than two failover times and our patience.
        """
        if self._planned is not None and offset_to_json(end) == offset_to_json(self._planned):
            return ranges
        patience = self._options.patience + 2 * self._options.failover_time
        until = self._connection.clock.now() + patience
        while True:
            self.committed(start)
            others = self._keeper.rows([each.shard_id for each in ranges if each.shard_id not in self.held])
            resumed = resume_ranges(ranges, end, self.held, others)
            if not resumed.waiting:
                self.planned(end)
                return resumed.ranges
            if self._connection.clock.now() > until:
                holders = (
                    f"{key} by {others[key].actual_owner} at {others[key].checkpoint}"
                    for key in resumed.waiting
                )
                raise LeaseHeldElsewhere(
                    f"a batch has to be done again, and for {patience} others have held leases of it without getting past it: "
                    f"{', '.join(holders)}. Stop them, or start the query again when they are"
                )
            self._connection.sleep(WITHOUT_LEASES)
