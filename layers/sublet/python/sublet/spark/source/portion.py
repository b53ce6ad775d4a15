"""Which part of its streams a query reads: all of it, or the shards whose leases it holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey
from sublet.spark.options import Options
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Offset, ShardOffset, StreamOffset
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.connection import StreamAccess


class QueriedStream(NamedTuple):
    """One of a query's streams. `key`: None for the only one; `options`: those of a query of this stream alone."""

    key: StreamKey | None
    access: StreamAccess
    options: Options


class Portion(Protocol):
    """Which part of its streams the query reads: `whole_streams`, `leased_shards`.

    application   whose leases it uses; None: none
    """

    @property
    def application(self) -> str | None: ...

    def settle(self) -> None:
        """Called before the targets of an available-now run are set."""

    def settles_again(self, start: Offset) -> bool:
        """Called when an available-now run finds nothing to read from there. True if it should look once more."""

    def committed(self, start: Offset) -> None:
        """Spark has committed everything up to `start`. Called before each plan."""

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        """Takes what a plan has found in each shard that it looked into, even if there is nothing to read."""

    def wait_for_leases(self, listed: Collection[str]) -> None:
        """Called when all streams are planned, after `looked`. `listed`: their shards."""

    def planned(self, end: Offset) -> None:
        """Called when a batch up to there is about to run."""

    def planned_nothing(self) -> None:
        """Called instead if there is nothing to read."""

    def resume(
        self, ranges: Sequence[ShardRange], start: Offset, end: Offset, has_shard: Callable[[str], bool]
    ) -> Sequence[ShardRange]:
        """Returns what is left to read of the batch, which may be a logged one that is repeated. `has_shard`: asks
        Kinesis whether it knows the shard still."""

    # Of one stream. Several streams may be asked about at the same time.

    def is_ours(self, shard_id: str) -> bool: ...

    def is_unlisted(self, stream: StreamKey | None, listed: Mapping[str, Shard]) -> bool:
        """True if a shard of the stream that is ours to read is missing from the listing."""

    def beginning(
        self,
        stream: QueriedStream,
        start: StreamOffset,
        listed: Mapping[str, Shard],
        denied: Collection[str],
        list_again: Callable[[], Iterable[Shard]],
        now: datetime,
    ) -> Mapping[str, ShardOffset]:
        """Returns the shards that a batch from `start` begins to read, and where. `denied`: unlisted ones that are
        gone.
        """

    def blocked(self, shards: Iterable[Shard], listed: Mapping[str, Shard]) -> frozenset[str]:
        """Returns closed shards that may only be read to their last record for now, not to their end."""

    def placement(self, stream: QueriedStream) -> Placement:
        """Who places the stream's records, as other processes of the application know it."""
