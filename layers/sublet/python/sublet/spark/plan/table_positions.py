"""How far a table holds the stream, by shard, and what follows from that for a batch. Pure.

A batch's number is not its identity: after a checkpoint was set back, restored or truncated, Spark gives the same
numbers to other records. So each table keeps its positions, in the transaction that writes the rows, and takes of a
batch what is beyond them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.stream_key import own_id
from sublet.spark.plan.committed import checkpoint_of
from sublet.spark.plan.offsets import Offset, ReadTo, StreamOffset, to_millis


def shard_name(stream: str, shard_id: str) -> str:
    return f"{stream}/{shard_id}"


def parsed(text: str) -> Checkpoint:
    """Reads a position such as `4968...:3`. Raises MalformedCheckpoint for text that is none."""
    number, _, sub = text.partition(":")
    return Checkpoint.parse(number, int(sub or 0))


KEPT_MILLIS = 400 * 24 * 3600 * 1000
"""How long a shard is kept that the query no longer knows: longer than Kinesis retains any record (365 days)."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Everything of a shard is held up to `checkpoint`. `arrived`: about when that record arrived, in milliseconds."""

    checkpoint: Checkpoint
    arrived: int = 0


@dataclass(frozen=True, slots=True)
class ShardExtent:
    """The rows of a shard in a batch: the first and the last position, and when the last one arrived."""

    first: Checkpoint
    last: Checkpoint
    arrived: int


@dataclass(frozen=True, slots=True)
class BatchExtent:
    """What a batch covers.

    shards   by name (`orders/shardId-0`), those with rows
    rows, size  how many rows, and how many bytes of data they have
    begins, ends  what the checkpoint says of the batch's shards, rows or not; None if it cannot be read
    created  when each stream was created, as far as the checkpoint says
    """

    shards: Mapping[str, ShardExtent] = field(default_factory=dict)
    rows: int = 0
    size: int = 0
    begins: Mapping[str, Checkpoint] | None = None
    ends: Mapping[str, Checkpoint] | None = None
    created: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TablePositions:
    """How far a table holds each shard. `created`: when each stream was created, so that a recreated one is another."""

    shards: Mapping[str, Reached] = field(default_factory=dict)
    created: Mapping[str, int] = field(default_factory=dict)

    def advanced(self, extent: BatchExtent) -> TablePositions:
        """The positions after the batch; `self` if it moves none of them."""
        now = max((shard.arrived for shard in extent.shards.values()), default=0)
        now = max(now, max((held.arrived for held in self.shards.values()), default=0))
        reached = {name: Reached(shard.last, shard.arrived) for name, shard in extent.shards.items()}
        for name, end in (extent.ends or {}).items():
            if name not in reached or end > reached[name].checkpoint:
                reached[name] = Reached(end, now)
        held = self._of_todays_streams(extent)
        moved = {name: to for name, to in reached.items() if name not in held or to.checkpoint > held[name].checkpoint}
        if not moved:
            return self
        kept = {
            name: shard
            for name, shard in held.items()
            if name in (extent.ends or reached) or shard.arrived > now - KEPT_MILLIS
        }
        return TablePositions({**kept, **moved}, {**self.created, **extent.created})

    def cut(self, extent: BatchExtent) -> dict[str, str]:
        """The positions that some of the batch's rows are not beyond, as `unwritten` takes them."""
        held = self._of_todays_streams(extent)
        return {
            name: str(held[name].checkpoint)
            for name, shard in extent.shards.items()
            if name in held and shard.first <= held[name].checkpoint
        }

    def gap(self, extent: BatchExtent) -> str | None:
        """The shard of which the batch does not begin where the table ends. None if there is none, or if nothing is
        known: the table is new, or the checkpoint cannot be read."""
        held = self._of_todays_streams(extent)
        if not held or extent.begins is None:
            return None
        return next((name for name, begin in sorted(extent.begins.items()) if _is_ahead(begin, held.get(name))), None)

    def _of_todays_streams(self, extent: BatchExtent) -> dict[str, Reached]:
        """Without the shards of a stream that was deleted and created again under its name."""
        gone = {name for name, at in extent.created.items() if self.created.get(name, at) != at}
        return {name: held for name, held in self.shards.items() if name.partition("/")[0] not in gone}

    def to_value(self) -> dict[str, Any]:
        """As JSON has it."""
        shards = {name: [str(held.checkpoint), held.arrived] for name, held in sorted(self.shards.items())}
        return {"shards": shards, "created": dict(sorted(self.created.items()))}

    @classmethod
    def from_value(cls, value: Any) -> TablePositions:
        """Raises ValueError, KeyError or TypeError for anything else."""
        shards = {str(name): Reached(parsed(text), int(at)) for name, (text, at) in value["shards"].items()}
        return cls(shards, {str(name): int(at) for name, at in value["created"].items()})

    def to_json(self) -> str:
        return json.dumps(self.to_value())


def _is_ahead(begin: Checkpoint, held: Reached | None) -> bool:
    return held is None or begin > held.checkpoint


def refuse_gap(table: str, held: TablePositions, extent: BatchExtent, checkpoint: str, batch: int) -> None:
    """Raises SettingsError if records between what the table holds and the batch are in neither."""
    shard = held.gap(extent)
    if shard is None:
        return
    known = held.shards.get(shard)
    until = f"up to {known.checkpoint.tail}" if known is not None else "not at all"
    begin = (extent.begins or {})[shard].tail
    raise SettingsError(
        "checkpoint",
        checkpoint,
        f"it is ahead of table {table}, which holds {shard} {until}, but batch {batch} begins after {begin}: put back "
        "the checkpoint that belongs to the tables, or start again with another output",
    )


def bounded(extent: BatchExtent, before: Offset | None, after: Offset | None) -> BatchExtent:
    """The extent with what Spark's offset log says: `before` is the end of the batch before, None for the first one."""
    if after is None:
        return extent
    begins: dict[str, Checkpoint] = {}
    ends: dict[str, Checkpoint] = {}
    created: dict[str, int] = {}
    for key, part in sorted(after.streams.items(), key=lambda entry: entry[1].identity.created_at):
        created[part.stream] = to_millis(part.identity.created_at)
        ends |= _checkpoints(part)
        earlier = None if before is None else before.streams.get(key)
        if earlier is not None:
            begins |= {name: at for name, at in _begins(earlier).items() if name.partition("/")[0] == part.stream}
    return BatchExtent(extent.shards, extent.rows, extent.size, begins, ends, created)


def _checkpoints(part: StreamOffset) -> dict[str, Checkpoint]:
    found = {own_id(key): checkpoint_of(shard.position) for key, shard in part.shards.items()}
    return {shard_name(part.stream, name): at for name, at in found.items() if at is not None}


def _begins(part: StreamOffset) -> dict[str, Checkpoint]:
    """Where a batch begins. Of a record that was read whole, a table may hold fewer user records than it has: some
    are dropped. So there only its sequence number counts."""
    return {
        shard_name(part.stream, own_id(key)): Checkpoint(at.sequence_number, at.sub_sequence_number or 0)
        for key, shard in part.shards.items()
        if isinstance(at := shard.position, ReadTo)
    }
