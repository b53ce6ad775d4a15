"""A query that shares the leases of an application of several streams. One keeper holds the leases of all streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.spark.keeper.keeper import Keeping
from sublet.spark.options import Options
from sublet.spark.plan.joining import joining_positions
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Offset, ShardOffset
from sublet.spark.plan.offsets_of_several import OffsetOfSeveral
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.connection import StreamAccess, StreamsAccess
from sublet.spark.source.leased_shards import LeasedShards
from sublet.spark.source.portion import Portion


class LeasedStreams:
    """The portion of all streams: asks the keeper once for what concerns all. Each stream has a portion of its own
    beside it.
    """

    def __init__(self, keeper: Keeping, access: StreamsAccess, options: Options) -> None:
        self.application = options.application
        self._keeper = keeper
        self._all = LeasedShards(keeper, access, options)

    def of_stream(self, stream: StreamKey, access: StreamAccess, options: Options) -> Portion:  # noqa: ARG002
        return _LeasesOfStream(stream, self._all, self._keeper)

    def is_ours(self, shard_id: str) -> bool:
        return self._all.is_ours(shard_id)

    def settle(self) -> None:
        self._all.settle()

    def committed(self, start: OffsetOfSeveral) -> None:
        self._all.committed(start)

    def planned(self, end: OffsetOfSeveral) -> None:
        self._all.planned(end)

    def looked_over(self, start: OffsetOfSeveral, ends: Mapping[StreamKey, Offset], listed: Collection[str]) -> None:
        if not self._all.held or not (start.streams or ends):
            self._all.has_nothing(listed, waits=not start.streams)

    def resume(
        self, ranges: Sequence[ShardRange], start: OffsetOfSeveral, end: OffsetOfSeveral
    ) -> Sequence[ShardRange]:
        return self._all.resume(ranges, start, end)


class _LeasesOfStream:
    """The portion of one stream. It ignores what Spark plans and commits, because a batch is of all streams."""

    def __init__(self, stream: StreamKey, whole: LeasedShards, keeper: Keeping) -> None:
        self.application = whole.application
        self._stream = stream
        self._whole = whole
        self._keeper = keeper

    @property
    def _held(self) -> Mapping[str, Lease]:
        return {name: lease for name, lease in self._whole.held.items() if stream_key_of(name) == self._stream}

    def settle(self) -> None:
        """Does nothing: see the class."""

    def committed(self, start: Offset) -> None:
        """Does nothing: see the class."""

    def planned(self, end: Offset) -> None:
        """Does nothing: see the class."""

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        self._whole.looked(found)

    def is_ours(self, shard_id: str) -> bool:
        return self._whole.is_ours(shard_id)

    def is_unlisted(self, listed: Mapping[str, Shard]) -> bool:
        return not self._held.keys() <= listed.keys()

    def beginning(
        self,
        start: Offset,
        listed: Mapping[str, Shard],  # noqa: ARG002
        denied: Collection[str],  # noqa: ARG002
        list_again: Callable[[], Iterable[Shard]],  # noqa: ARG002
        now: datetime,
    ) -> Mapping[str, ShardOffset]:
        return joining_positions(start, self._held, now)

    def blocked(self, shards: Iterable[Shard], listed: Mapping[str, Shard]) -> frozenset[str]:
        return self._whole.blocked(shards, listed)

    def placement(self) -> Placement:
        return self._keeper.placement_of(self._stream)

    def resume(
        self,
        ranges: Sequence[ShardRange],
        start: Offset,  # noqa: ARG002
        end: Offset,  # noqa: ARG002
    ) -> Sequence[ShardRange]:
        return ranges
