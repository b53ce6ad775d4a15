"""A query that shares an application's leases: it reads the shards whose leases its keeper holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sublet.decisions.session.control import READ_EVERY
from sublet.errors import LeaseHeldElsewhere
from sublet.protocol.control import NO_CONTROL, Pause
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.spark.keeper.keeper import LeaseKeeping
from sublet.spark.options import Options
from sublet.spark.plan.joining import joining_positions, resume_ranges
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Offset, ShardOffset, StreamOffset, offset_to_json
from sublet.spark.plan.planning import ShardRange, other_listed_parents
from sublet.spark.read.connection import StreamsAccess
from sublet.spark.source.data_loss import tell_of_gap
from sublet.spark.source.portion import QueriedStream

WITHOUT_LEASES = timedelta(milliseconds=500)
"""The pause between two looks of a query that has no shard to look into, which would pace it."""

LOOK_AGAIN = timedelta(seconds=1)
"""The pause between two checks that a lease's owner is alive."""


class LeasedShards:
    """The shards whose leases the keeper holds. `held` has them by lease key, as of the last plan. Other shards are not
    read, and their positions in the offset do not change."""

    def __init__(self, keeper: LeaseKeeping, access: StreamsAccess, options: Options) -> None:
        self.application = options.application
        self.held: Mapping[str, Lease] = {}
        self._by_stream: Mapping[StreamKey | None, dict[str, Lease]] = {}
        self._keeper = keeper
        self._access = access
        self._options = options
        self._planned: Offset | None = None
        self._resumed: tuple[Offset, Offset, Sequence[ShardRange]] | None = None
        """The start and end of the logged batch that is repeated, and what was left of it. Spark may ask again."""
        self._has_looked = False
        """The last plan has looked into a shard."""
        self._takes_what_is_there = False
        self._in_vain = frozenset[str]()
        """Leases for which an available-now run has waited as long as it may."""
        self._settled_at: Offset | None = None

    def settle(self) -> None:
        """Wait until no more leases may become ours: one whose owner may be dead, or that is left to the fair share of
        a worker that may be, or that follows a shard which is read to its end. One whose owners keep crashing pauses
        for longer, and is told."""
        self._takes_what_is_there = True
        clock, sleep = self._access.clock, self._access.sleep
        until = clock.steady() + self._options.failover_time + 3 * LOOK_AGAIN
        while (unsettled := self._keeper.unsettled()) is None or unsettled - self._in_vain:
            if clock.steady() >= until:
                told = "unknown: they cannot be read" if unsettled is None else ", ".join(sorted(unsettled))
                self._access.log.warning(
                    "this run goes on without leases that nobody holds, or that follow ended shards", leases=told
                )
                self._in_vain |= unsettled or frozenset()
                return
            sleep(LOOK_AGAIN)

    def settles_again(self, start: Offset) -> bool:
        """A call that was refused may have left leases to nobody, such as those of the children of shards that are read
        to their ends. Settles only once at each offset: a query that its trigger does not end plans again and again.
        """
        if start == self._settled_at:
            return False
        self._settled_at = start
        self.settle()
        return True

    def committed(self, start: Offset) -> None:
        """Called when Spark plans the batch after `start`, which means that `start` is committed."""
        self.held = self._keeper.held(start)
        by_stream: dict[StreamKey | None, dict[str, Lease]] = defaultdict(dict)
        for key, lease in self.held.items():
            by_stream[stream_key_of(key)][key] = lease
        self._by_stream = by_stream

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        self._has_looked = bool(found)
        self._keeper.looked(found)

    def wait_for_leases(self, listed: Collection[str]) -> None:
        """Waits a little if no shard may be read. Raises LeaseHeldElsewhere if an available-now run would end without
        reading anything because of other owners.
        """
        if self._has_looked:
            return
        if self._takes_what_is_there and self._planned is None and not self.held:
            self._refuse_to_read_nothing(listed)
        self._access.sleep(WITHOUT_LEASES)

    def planned(self, end: Offset) -> None:
        """Called before Spark learns of the batch, so that the keeper knows of every batch that runs."""
        self._planned, self._resumed = end, None
        self._keeper.planned(end)

    def planned_nothing(self) -> None:
        self._keeper.planned_nothing()

    def is_ours(self, shard_id: str) -> bool:
        return shard_id in self.held

    def is_unlisted(self, stream: StreamKey | None, listed: Mapping[str, Shard]) -> bool:
        return not self._held_of(stream).keys() <= listed.keys()

    def beginning(
        self,
        stream: QueriedStream,
        start: StreamOffset,
        listed: Mapping[str, Shard],  # noqa: ARG002
        denied: Collection[str],  # noqa: ARG002
        list_again: Callable[[], Iterable[Shard]],  # noqa: ARG002
        now: datetime,
    ) -> Mapping[str, ShardOffset]:
        return joining_positions(start, self._held_of(stream.key), now)

    def _held_of(self, stream: StreamKey | None) -> Mapping[str, Lease]:
        return self._by_stream.get(stream, {})

    def blocked(self, shards: Iterable[Shard], listed: Mapping[str, Shard]) -> frozenset[str]:
        """Shards of a merge whose other parent has no lease (KCL), because the child would start without that parent's
        records. They are read to their last record, which can be checkpointed, and ended later."""
        others = other_listed_parents((shard.shard_id for shard in shards if not shard.is_open), listed)
        asked = frozenset[str]().union(*others.values())
        missing = asked - _leases(self._keeper.rows(sorted(asked))).keys() if asked else asked
        return frozenset(shard_id for shard_id, parents in others.items() if parents & missing)

    def placement(self, stream: QueriedStream) -> Placement:
        return self._keeper.placement_of(stream.key)

    def resume(
        self, ranges: Sequence[ShardRange], start: Offset, end: Offset, has_shard: Callable[[str], bool]
    ) -> Sequence[ShardRange]:
        """Returns the ranges unchanged if this process planned them. A logged batch is repeated: returns what is left
        of it, once each of its leases is ours or past it; the same again if it is asked again.

        Raises LeaseHeldElsewhere if that takes longer than two failover times and our patience, but waits without a
        bound if only an operator's pause keeps its leases from us; DataGap if neither a shard of it nor its lease is
        there any more.
        """
        if self._resumed is not None and self._resumed[:2] == (start, end):
            return self._resumed[2]
        if self._planned is not None and offset_to_json(end) == offset_to_json(self._planned):
            return ranges
        patience = self._options.patience + 2 * self._options.failover_time
        clock, has_told = self._access.clock, False
        until = clock.steady() + patience
        while True:
            self.committed(start)
            others = self._keeper.rows([each.shard_id for each in ranges if each.shard_id not in self.held])
            resumed = resume_ranges(ranges, end, self.held, others)
            if not resumed.waiting:
                for shard_id in resumed.rowless:
                    if not has_shard(shard_id):
                        self._tell_of_lost_lease(shard_id)
                self.planned(end)
                self._resumed = (start, end, resumed.ranges)
                return resumed.ranges
            pauses = self._keeper.pauses(resumed.waiting)
            told = _described([others[key] for key in resumed.waiting], pauses)
            only_paused = pauses.keys() == set(resumed.waiting)
            if only_paused:
                if not has_told:
                    self._access.log.warning("a batch must be repeated, and waits for paused leases", leases=told)
                has_told, until = True, clock.steady() + patience
            elif clock.steady() > until:
                raise LeaseHeldElsewhere(
                    f"a batch must be repeated, and for {patience} this query could not take its leases, nor did other "
                    f"owners get past it: {told}. Stop the other owners, or start it again once they are past it"
                    f"{', and resume what is paused' if pauses else ''}"
                )
            self._access.sleep(READ_EVERY if only_paused else WITHOUT_LEASES)

    def _tell_of_lost_lease(self, shard_id: str) -> None:
        stream = stream_key_of(shard_id)
        tell_of_gap(
            self._access.log,
            self._options,
            self._options.stream if stream is None else stream.stream,
            f"a batch that must be repeated has records of shard {shard_id}, and neither the shard nor its lease is "
            "there any more: they are lost unless another owner has handled the shard to its end",
        )

    def _refuse_to_read_nothing(self, listed: Collection[str]) -> None:
        rows = _leases(self._keeper.rows(sorted(listed))).values()
        others = [row for row in rows if row.actual_owner is not None and not row.is_ended]
        if others:
            raise LeaseHeldElsewhere(
                f"this run has nothing to read, because other owners hold the leases: {_described(others)}. Stop "
                f"them, and start it again. {self.application}-spark is another running query of this application"
            )


def _leases(rows: Mapping[str, Lease | MalformedRow]) -> Mapping[str, Lease]:
    return {key: row for key, row in rows.items() if isinstance(row, Lease)}


def _described(rows: Iterable[Lease | MalformedRow], pauses: Mapping[str, Pause] = NO_CONTROL.leases) -> str:
    return ", ".join(_told(row, pauses.get(row.lease_key)) for row in rows)


def _told(row: Lease | MalformedRow, pause: Pause | None) -> str:
    if isinstance(row, MalformedRow):
        return f"{row.lease_key} (its row cannot be read: {row.problem})"
    paused = "" if pause is None else f" (paused by {pause.by})"
    return f"{row.lease_key} by {row.actual_owner or 'nobody'} at {row.checkpoint}{paused}"
