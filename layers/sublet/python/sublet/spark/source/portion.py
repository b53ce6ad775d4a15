"""Which part of a stream a query reads: all of it, or the shards whose leases it holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey
from sublet.spark.options import Options
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Offset, ShardOffset
from sublet.spark.plan.offsets_of_several import OffsetOfSeveral
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.connection import StreamAccess


class Portion(Protocol):
    """Which part of the stream the query reads: `whole_stream`, `leased_shards`.

    application   whose leases it uses; None: none
    """

    @property
    def application(self) -> str | None: ...

    def settle(self) -> None:
        """Called before the targets of an available-now run are set."""

    def committed(self, start: Offset) -> None:
        """Spark has committed everything up to `start`. Called before each plan."""

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        """Takes what a plan has found in each shard that it looked into, even if there is nothing to read."""

    def planned(self, end: Offset) -> None:
        """Called when a batch up to there is about to run."""

    def is_ours(self, shard_id: str) -> bool: ...

    def is_unlisted(self, listed: Mapping[str, Shard]) -> bool:
        """True if a shard that is ours to read is missing from the listing."""

    def beginning(
        self,
        start: Offset,
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

    def resume(self, ranges: Sequence[ShardRange], start: Offset, end: Offset) -> Sequence[ShardRange]:
        """Returns what is left to read of the batch, which may be a logged one that is repeated."""

    def placement(self) -> Placement:
        """Who places the stream's records, as other processes of the application know it."""


class Portions(Protocol):
    """Which part of several streams the query reads: `whole_streams`, `leased_streams`. It is the Portion of all of
    them.
    """

    @property
    def application(self) -> str | None: ...

    def of_stream(self, stream: StreamKey, access: StreamAccess, options: Options) -> Portion: ...

    def is_ours(self, shard_id: str) -> bool: ...

    def settle(self) -> None: ...

    def committed(self, start: OffsetOfSeveral) -> None: ...

    def planned(self, end: OffsetOfSeveral) -> None: ...

    def looked_over(self, start: OffsetOfSeveral, ends: Mapping[StreamKey, Offset], listed: Collection[str]) -> None:
        """Called when each stream is planned. `listed`: the shards of all streams."""

    def resume(
        self, ranges: Sequence[ShardRange], start: OffsetOfSeveral, end: OffsetOfSeveral
    ) -> Sequence[ShardRange]: ...
