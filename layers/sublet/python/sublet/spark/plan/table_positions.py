"""How far a table holds the stream, by shard, and what follows from that for a batch. Pure.

A batch's number is not its identity: after a checkpoint was set back, restored or truncated, Spark gives the same
numbers to other records. So each table keeps its positions, in the transaction that writes the rows, and takes of a
batch what is beyond them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.stream_key import own_id
from sublet.spark.plan.committed import checkpoint_of
from sublet.spark.plan.offsets import Ended, Offset, ReadTo, StreamOffset, Unread, to_millis


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
    """Everything of a shard is held up to `checkpoint`, which is NOTHING of a shard that ended without a record, or
    before the table's first one. `arrived`: about when that record arrived, or the shard ended, in milliseconds."""

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
    begins_ended, ended  the shards that were, or now are, read to their ends; None if it cannot be read
    starts   where shards start that the batch before does not know, also if they were closed by then and are not read;
             not of a query that shares leases, whose other workers may have handled what lies before
    created  when each stream was created, as far as the checkpoint says
    is_shared  whether the query shares leases
    judged_by  names the rule by which rows are judged: another schema has another one
    """

    shards: Mapping[str, ShardExtent] = field(default_factory=dict)
    rows: int = 0
    size: int = 0
    begins: Mapping[str, Checkpoint] | None = None
    ends: Mapping[str, Checkpoint] | None = None
    created: Mapping[str, int] = field(default_factory=dict)
    begins_ended: frozenset[str] | None = None
    ended: frozenset[str] | None = None
    starts: Mapping[str, Unread | ReadTo] = field(default_factory=dict)
    is_shared: bool = False
    judged_by: str | None = None

    @property
    def all_ended(self) -> frozenset[str] | None:
        """Also those that ended before, which the batch drops once Kinesis no longer lists them."""
        return None if self.ended is None else self.ended | (self.begins_ended or frozenset())


@dataclass(frozen=True, slots=True)
class TablePositions:
    """How far a table holds each shard.

    created    when each stream was created, so that a recreated one is another
    ended      the shards that it holds to their ends; None if it is not known, as in positions of earlier versions
    judged_by  the rule by which its last batch was judged, if it is known
    """

    shards: Mapping[str, Reached] = field(default_factory=dict)
    created: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] | None = None
    judged_by: str | None = None

    def advanced(self, extent: BatchExtent) -> TablePositions:
        """The positions after the batch; `self` if it moves none of them."""
        extent = self._of_later_streams(extent)
        now = max((shard.arrived for shard in extent.shards.values()), default=0)
        now = max(now, max((held.arrived for held in self.shards.values()), default=0))
        reached = {name: Reached(shard.last, shard.arrived) for name, shard in extent.shards.items()}
        for name, end in (extent.ends or {}).items():
            if name not in reached or end > reached[name].checkpoint:
                reached[name] = Reached(end, now)
        held = self._of_todays_streams(extent)
        moved = {name: to for name, to in reached.items() if name not in held or to.checkpoint > held[name].checkpoint}
        if not moved and not self._ends_more(extent):
            return self
        kept = {
            name: shard
            for name, shard in held.items()
            if name in (extent.ends or reached) or shard.arrived > now - KEPT_MILLIS
        }
        shards = {**kept, **moved}
        ended = extent.all_ended
        if ended is not None:
            # One of which nothing was held, and which is read again, is held only as far as that.
            again = {name for name in moved if name in held and held[name].checkpoint == NOTHING}
            ended |= (self.ended or frozenset()) & (kept.keys() - again)
            # A shard that had no record is known to have ended for as long as the others.
            shards |= {name: Reached(NOTHING, now) for name in ended - shards.keys()}
        streams = {_stream_of(name) for name in shards}
        created = {name: at for name, at in self.created.items() if name in streams}
        return TablePositions(shards, {**created, **extent.created}, ended, extent.judged_by)

    def _ends_more(self, extent: BatchExtent) -> bool:
        if self.ended is None:
            return not self.shards and bool(extent.all_ended)
        return extent.all_ended is None or not extent.all_ended <= self.ended

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
        held, extent = self._of_todays_streams(extent), self._of_later_streams(extent)
        if not held or extent.begins is None:
            return None
        ahead = [name for name, begin in extent.begins.items() if self._lacks(name, begin, held)]
        if self.ended is not None:
            ahead += (extent.begins_ended or frozenset()) - self.ended
        # A table that does not know what it holds to the end may do so of all that has ended.
        whole = (extent.ended if self.ended is None else self.ended) or frozenset()
        starts = {name: start for name, start in extent.starts.items() if name not in whole}
        ahead += [name for name, start in starts.items() if _starts_beyond(name, start, held)]
        return min(ahead, default=None)

    def _lacks(self, name: str, begin: Checkpoint, held: Mapping[str, Reached]) -> bool:
        """Whether records before this one are missing. A table that began when the shard ended needs none of it."""
        if name not in held:
            return True
        at = held[name].checkpoint
        return begin > at and not (at == NOTHING and name in (self.ended or ()))

    def passed_over(self, fuller: TablePositions, extent: BatchExtent) -> list[str]:
        """The shards of which `fuller`, a table of the same batches, has records that this one will never get: a batch
        was cut off between the two, and other workers have handled it since, so that its repetition goes past them."""
        if not extent.is_shared:
            return []
        held, theirs = self._of_todays_streams(extent), fuller._of_todays_streams(extent)
        extent = fuller._of_later_streams(extent)
        found = []
        for name, end in (extent.ends or {}).items():
            if name not in theirs or theirs[name].checkpoint == NOTHING or not end >= theirs[name].checkpoint:
                continue
            lacks = name not in held or held[name].checkpoint < theirs[name].checkpoint
            rows = extent.shards.get(name)
            if lacks and (rows is None or rows.first > theirs[name].checkpoint):
                found.append(name)
        return sorted(found)

    def judged_otherwise(self, other: TablePositions, extent: BatchExtent) -> list[str]:
        """The shards of which this table holds records of the batch that `other` lacks, judged by another rule than the
        batch's: what did not fit then and fits now would be in neither, and the other way round in both."""
        if self.judged_by is None or self.judged_by == extent.judged_by:
            return []
        held, theirs = self._of_todays_streams(extent), other._of_todays_streams(extent)
        return sorted(
            name
            for name, shard in extent.shards.items()
            if name in held
            and shard.first <= held[name].checkpoint
            and (name not in theirs or theirs[name].checkpoint < min(held[name].checkpoint, shard.last))
        )

    def holds_some(self, name: str, raw: TablePositions) -> bool:
        """Whether the table holds records of this shard of `raw`."""
        return name in self.shards and self.shards[name].checkpoint != NOTHING and self._has_stream_of(name, raw)

    def with_those(self, shards: Mapping[str, Reached], raw: TablePositions) -> TablePositions:
        """With these positions, as `filled` has them; `self` if that changes nothing."""
        ended = raw.ended or frozenset()
        if self.shards and (self.ended is None or raw.ended is None):
            return self
        new = {
            name: at
            for name, at in shards.items()
            if (not self.shards or name in ended) and not self.holds_some(name, raw) and self._has_stream_of(name, raw)
        }
        whole = frozenset(name for name, at in new.items() if name in ended and at == raw.shards[name])
        created = {stream: raw.created[stream] for stream in map(_stream_of, new) if stream in raw.created}
        after = replace(
            self,
            shards={**self.shards, **new},
            created={**created, **self.created},
            ended=None if raw.ended is None else (self.ended or frozenset()) | whole,
        )
        return self if after == self else after

    def _has_stream_of(self, name: str, raw: TablePositions) -> bool:
        """Whether what the table holds of this shard's stream is of the one that `raw` has, and not of an earlier one
        of that name."""
        stream = _stream_of(name)
        return stream not in raw.created or self.created.get(stream, raw.created[stream]) == raw.created[stream]

    def _of_todays_streams(self, extent: BatchExtent) -> dict[str, Reached]:
        """Without the shards of a stream that was deleted and created again under its name."""
        gone = {name for name, at in extent.created.items() if self.created.get(name, at) < at}
        return {name: held for name, held in self.shards.items() if _stream_of(name) not in gone}

    def _of_later_streams(self, extent: BatchExtent) -> BatchExtent:
        """The batch without what it says of streams of which this table holds a later one of the same name: a
        checkpoint was put back from before that. No record of the earlier one can be read any more."""
        gone = {name for name, at in extent.created.items() if self.created.get(name, at) > at}
        if not gone:
            return extent
        ours = frozenset(name for name in self.ended or () if _stream_of(name) in gone)
        return replace(
            extent,
            begins=None if extent.begins is None else _without(gone, extent.begins),
            ends=None if extent.ends is None else _without(gone, extent.ends),
            created={name: at for name, at in extent.created.items() if name not in gone},
            begins_ended=None if extent.begins_ended is None else _outside_of(gone, extent.begins_ended),
            ended=None if extent.ended is None else _outside_of(gone, extent.ended) | ours,
            starts=_without(gone, extent.starts),
        )

    def to_value(self) -> dict[str, Any]:
        """As JSON has it."""
        shards = {name: [str(held.checkpoint), held.arrived] for name, held in sorted(self.shards.items())}
        value = {"shards": shards, "created": dict(sorted(self.created.items()))}
        known = {"ended": None if self.ended is None else sorted(self.ended), "judgedBy": self.judged_by}
        return {**value, **{name: each for name, each in known.items() if each is not None}}

    @classmethod
    def from_value(cls, value: Any) -> TablePositions:
        """Raises ValueError, KeyError or TypeError for anything else."""
        shards = {str(name): Reached(parsed(text), int(at)) for name, (text, at) in value["shards"].items()}
        ended = value.get("ended")
        created = {str(name): int(at) for name, at in value["created"].items()}
        return cls(shards, created, None if ended is None else frozenset(map(str, ended)), value.get("judgedBy"))

    def to_json(self) -> str:
        return json.dumps(self.to_value())


NOTHING = Checkpoint("0")
"""Before every record."""

T = TypeVar("T")


def _stream_of(name: str) -> str:
    return name.partition("/")[0]


def _outside_of(streams: Collection[str], shards: Iterable[str]) -> frozenset[str]:
    """The shards that are of none of these streams."""
    return frozenset(name for name in shards if _stream_of(name) not in streams)


def _without(streams: Collection[str], shards: Mapping[str, T]) -> dict[str, T]:
    return {name: shards[name] for name in _outside_of(streams, shards)}


def held_by_all(tables: Sequence[TablePositions]) -> dict[str, str]:
    """How far all of the tables hold each shard, as `unwritten` takes it: what is beyond may come yet."""
    names = frozenset[str]().union(*(table.shards.keys() for table in tables))
    nowhere = Reached(NOTHING)
    return {name: str(min(table.shards.get(name, nowhere).checkpoint for table in tables)) for name in sorted(names)}


def filled(tables: Sequence[TablePositions]) -> list[TablePositions]:
    """What the tables hold once the records that `raw`, the first one, holds of a shard are in those that held nothing
    of it: of any shard if they are new, and otherwise of one that has ended, since the pipeline goes on with the rest.
    Where another table lags, only up to there."""
    raw, *others = tables
    least = {}
    for name, at in raw.shards.items():
        reached = (table.shards[name] for table in tables if table.holds_some(name, raw))
        least[name] = min(reached, default=at, key=lambda each: each.checkpoint)
    return [raw, *(table.with_those(least, raw) for table in others)]


def _starts_beyond(name: str, start: Unread | ReadTo, held: Mapping[str, Reached]) -> bool:
    """True if a shard that the checkpoint does not know starts beyond what is held: somebody has emptied the
    checkpoint, and the start position leaves out what came meanwhile. A shard that the table does not know either
    is compared with the records that it has of the stream."""
    if isinstance(start, ReadTo):
        return name in held and held[name].checkpoint != NOTHING and _begin(start) > held[name].checkpoint
    stream = _stream_of(name)
    others = (at for other, at in held.items() if _stream_of(other) == stream and at.checkpoint != NOTHING)
    ours = [held[name]] if name in held else others
    arrived = max((at.arrived for at in ours), default=0)
    return start.at is not None and 0 < arrived < to_millis(start.at)


def refuse_gap(table: str, held: TablePositions, extent: BatchExtent, checkpoint: str, batch: int) -> None:
    """Raises SettingsError if records between what the table holds and the batch are in neither."""
    shard = held.gap(extent)
    if shard is None:
        return
    known = held.shards.get(shard)
    until = f"up to {known.checkpoint.tail}" if known is not None else "not at all"
    raise SettingsError(
        "checkpoint",
        checkpoint,
        f"it is ahead of table {table}, which holds {shard} {until}, but batch {batch} begins "
        f"{_begin_text(shard, extent)}: put back the checkpoint that belongs to the tables, or start again with "
        "another output",
    )


def _begin_text(shard: str, extent: BatchExtent) -> str:
    start = extent.starts.get(shard)
    if start is not None:
        moment = start.at if isinstance(start, Unread) else None
        at = f"at {moment.isoformat()}" if moment is not None else "beyond it"
        return f"{at}, by its start position (with TRIM_HORIZON nothing is missed or repeated)"
    begin = (extent.begins or {}).get(shard)
    return "after its end" if begin is None else f"after {begin.tail}"


def bounded(extent: BatchExtent, before: Offset | None, after: Offset | None) -> BatchExtent:
    """The extent with what Spark's offset log says: `before` is the end of the batch before, None for the first one."""
    if after is None:
        return extent
    newest = {
        part.stream: key for key, part in sorted(after.streams.items(), key=lambda each: each[1].identity.created_at)
    }
    begins: dict[str, Checkpoint] = {}
    ends: dict[str, Checkpoint] = {}
    created: dict[str, int] = {}
    begins_ended: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    starts: dict[str, Unread | ReadTo] = {}
    is_shared = any(part.application is not None for part in after.streams.values())
    for stream, key in newest.items():
        part, earlier = after.streams[key], None if before is None else before.streams.get(key)
        created[stream] = to_millis(part.identity.created_at)
        ends |= _checkpoints(part)
        ended |= _ended(part)
        if earlier is not None:
            begins |= _begins(earlier)
            begins_ended |= _ended(earlier)
        elif part.application is None:
            starts |= _starts(part)
    return BatchExtent(
        extent.shards, extent.rows, extent.size, begins, ends, created, begins_ended, ended, starts, is_shared
    )


def _checkpoints(part: StreamOffset) -> dict[str, Checkpoint]:
    found = {own_id(key): checkpoint_of(shard.position) for key, shard in part.shards.items()}
    return {shard_name(part.stream, name): at for name, at in found.items() if at is not None}


def _begins(part: StreamOffset) -> dict[str, Checkpoint]:
    """Where a batch begins."""
    return {
        shard_name(part.stream, own_id(key)): _begin(at)
        for key, shard in part.shards.items()
        if isinstance(at := shard.position, ReadTo)
    }


def _begin(at: ReadTo) -> Checkpoint:
    """Of a record that was read whole, a table may hold fewer user records than it has: some are dropped. So there
    only its sequence number counts."""
    return Checkpoint(at.sequence_number, at.sub_sequence_number or 0)


def _ended(part: StreamOffset) -> frozenset[str]:
    ended = (own_id(key) for key, shard in part.shards.items() if isinstance(shard.position, Ended))
    return frozenset(shard_name(part.stream, name) for name in ended)


def _starts(part: StreamOffset) -> dict[str, Unread | ReadTo]:
    """Where the shards start of a stream that the query has not read before. Those that it does not read, because they
    were closed before its start, have the start of the others; if that is of leases, others have handled them."""
    starts: dict[str, Unread | ReadTo] = {}
    for key, shard in part.shards.items():
        unread = shard.position if isinstance(shard.position, Unread) else None
        if (start := shard.began or unread) is not None:
            starts[shard_name(part.stream, own_id(key))] = start
    if len(start_of_all := set(starts.values())) == 1 and isinstance(start := start_of_all.pop(), Unread):
        starts |= dict.fromkeys(_ended(part) - starts.keys(), start)
    return starts
