"""What a producer knows about where its records go."""

from __future__ import annotations

from dataclasses import dataclass

from sublet.decisions.putting.outbox import QueuedRecord
from sublet.protocol.shard_map import ShardMap

ANYWHERE = ""
"""Stands for a shard if Kinesis alone decides."""


@dataclass(frozen=True, slots=True)
class RecordPlacing:
    """What a producer knows about where its records go.

    shards   None: this role may not list them, so nothing is predicted or aggregated
    is_auto  Kinesis places records itself (RecordDistributionStrategy AUTO): KCL drops aggregates there
    may_be_keyless  the stream may accept records without a partition key
    """

    shards: ShardMap | None
    is_auto: bool = False
    may_be_keyless: bool = True

    def outbox_of(self, record: QueuedRecord) -> str:
        if self.shards is None or self.is_auto or record.hash_key is None:
            return ANYWHERE
        return self.shards.shard_at(record.hash_key)

    def sorts_as(self, other: RecordPlacing) -> bool:
        """Whether each record has the same outbox by both, in the same stream."""
        ours, theirs = self.shards, other.shards
        if self.shard_ids != other.shard_ids or ours is None or theirs is None:
            return self.shard_ids == other.shard_ids
        return ours.starts == theirs.starts and ours.is_same_stream_as(theirs)

    @property
    def shard_ids(self) -> frozenset[str]:
        """The shards that need an outbox."""
        keyed = () if self.shards is None or self.is_auto else self.shards.shard_ids
        return frozenset((ANYWHERE, *keyed))
