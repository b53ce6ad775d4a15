"""What Spark's offset log holds of a stream: values, and their JSON. Pure.

    {"v":1, "stream":"orders", "arn":"arn:...", "created":1795227170308, "shards":{
        "shardId-0": {"e":1},
        "shardId-3": {"a":"4968...", "t":1795227170308},
        "shardId-4": {"a":"4968...", "t":1795227170308, "f":{"p":"TRIM_HORIZON"}}}}

`e`: read to its end. `a`: the last stream record read, by sequence number; `t`: when it arrived; `i`: of that record only
the user records up to this sub-sequence number. `p`: nothing read yet, from the trim horizon or from the moment `t`.
`f`: where this offset's batch began, for a shard that the offset before lacks: a batch can be planned again from the log
alone, and LATEST is a moment from the first plan on. `c`: a moment before which nothing arrived that is unread, of the shard or,
beside `e`, of its children. `q`: no record beyond the position arrived before that moment, by Kinesis' own clock: so an idle
shard is not walked again from its last record on (`decisions.quiet`). It stands beside the position that it is of, and goes with
it. `d`: how the stream was last described before the batch was planned: at `t`, with a retention of `r`
seconds and, as far as told, the record distribution `s`; `auto`: until when AUTO may have placed records. By these alone a task
knows which aggregates out of range it may drop, so that it drops the same ones when it is done again; and they outlive the
process. Moments are milliseconds of the epoch. `initial`: of a query that has planned nothing yet; an offset
that names no shard and does not say so is damaged, and would have everything read from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sublet.errors import OffsetMalformed
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement, RecordDistribution, StreamDescription

VERSION = 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Unread:
    """Nothing of the shard has been read. It begins at the moment `at`, or (None) at the trim horizon."""

    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReadTo:
    """Everything up to and including this stream record has been read.

    arrived               None when unknown: the position is a checkpoint of the lease table
    sub_sequence_number   of this record only the user records up to this one: a checkpoint in mid-aggregate
    last_sub_sequence_number   of the last user record in it: what a checkpoint after the whole record names
    """

    sequence_number: str
    arrived: datetime | None = None
    sub_sequence_number: int | None = None
    last_sub_sequence_number: int = 0

    def is_before(self, sequence_number: str) -> bool:
        """Whether something of that stream record is still to be read."""
        ours, other = int(self.sequence_number), int(sequence_number)
        return ours < other or (ours == other and self.sub_sequence_number is not None)


@dataclass(frozen=True, slots=True)
class Ended:
    """The shard has been read to its end, or is none of ours: it was closed before the query's start position."""


Position = Unread | ReadTo | Ended


@dataclass(frozen=True, slots=True)
class ShardOffset:
    """A shard's part of an offset. `began`, `caught_up_at` and `quiet_until` are the keys `f`, `c` and `q` above."""

    position: Position
    began: Unread | ReadTo | None = None
    caught_up_at: datetime | None = None
    quiet_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a query has read a stream. Without shards: not planned yet. `application`: whose leases it holds. `placement`: who
    places the stream's records, as far as it was known when the batch that ends here was planned."""

    stream: str
    identity: StreamIdentity
    shards: Mapping[str, ShardOffset] = field(default_factory=dict)
    application: str | None = None
    placement: Placement = NOT_DESCRIBED


def to_millis(moment: datetime) -> int:
    """Rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def from_millis(millis: int) -> datetime:
    return _EPOCH + millis * _MILLISECOND


def offset_to_json(offset: Offset) -> dict[str, Any]:
    """Shards in order of their ids, so that equal offsets are equal text: Spark compares text."""
    holds = {} if offset.application is None else {"application": offset.application}
    return {
        "v": VERSION,
        "stream": offset.stream,
        "arn": offset.identity.arn,
        "created": to_millis(offset.identity.created_at),
        **holds,
        **_placement_to_json(offset.placement),
        **({} if offset.shards else {"initial": 1}),
        "shards": {shard_id: _shard_to_json(offset.shards[shard_id]) for shard_id in sorted(offset.shards)},
    }


def offset_from_json(data: Mapping[str, Any]) -> Offset:
    """The offset, or OffsetMalformed: it is another source's, another version's, or damaged."""
    try:
        if data["v"] != VERSION:
            raise OffsetMalformed(
                f"the checkpoint's offsets have version {data['v']!r}; this sublet reads {VERSION}: "
                "use the sublet that wrote them"
            )
        identity = StreamIdentity(data["arn"], from_millis(data["created"]))
        offset = Offset(
            data["stream"],
            identity,
            {shard_id: _shard_from_json(part) for shard_id, part in data["shards"].items()},
            data.get("application"),
            _placement_from_json(data, identity),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as damage:
        raise damaged_offset(str(data), damage) from damage
    if not offset.shards and "initial" not in data and offset.application is None:
        raise damaged_offset(str(data), ValueError("it names no shard"))
    return offset


def damaged_offset(text: str, damage: Exception) -> OffsetMalformed:
    """For what Spark's log holds in an offset's place."""
    return OffsetMalformed(
        f"the checkpoint's offset {text[:200]!r} is not sublet's, or is damaged ({type(damage).__name__}: {damage}): "
        "put the file in `offsets` below the checkpointLocation back from a copy, or give the query a new checkpointLocation"
    )


def _placement_to_json(placement: Placement) -> dict[str, Any]:
    last, seen = placement.last, placement.auto_seen_at
    auto = {} if seen is None else {"auto": to_millis(seen)}
    if last is None:
        return auto
    says = {} if last.distribution is None else {"s": last.distribution.value}
    return {"d": {"t": to_millis(last.at), "r": last.retention // _SECOND, **says}, **auto}


def _placement_from_json(data: Mapping[str, Any], identity: StreamIdentity) -> Placement:
    last, seen = None, _moment(data.get("auto"))
    if "d" in data:
        told = data["d"]
        says = told.get("s")
        last = StreamDescription(
            identity,
            from_millis(told["t"]),
            told["r"] * _SECOND,
            None if says is None else RecordDistribution(says),
        )
    return Placement(last, seen)


def _shard_to_json(shard: ShardOffset) -> dict[str, Any]:
    part = _position_to_json(shard.position)
    if shard.began is not None:
        part["f"] = _position_to_json(shard.began)
    if shard.caught_up_at is not None:
        part["c"] = to_millis(shard.caught_up_at)
    if shard.quiet_until is not None:
        part["q"] = to_millis(shard.quiet_until)
    return part


def _shard_from_json(part: Mapping[str, Any]) -> ShardOffset:
    began = _position_from_json(part["f"]) if "f" in part else None
    if isinstance(began, Ended):
        raise ValueError("a shard cannot begin at its end")
    return ShardOffset(_position_from_json(part), began, _moment(part.get("c")), _moment(part.get("q")))


def _position_to_json(position: Position) -> dict[str, Any]:
    match position:
        case Ended():
            return {"e": 1}
        case Unread(at):
            return {"p": "TRIM_HORIZON"} if at is None else {"p": "AT_TIMESTAMP", "t": to_millis(at)}
        case ReadTo(sequence_number, arrived, sub_sequence_number, last_sub_sequence_number):
            part: dict[str, Any] = {"a": sequence_number}
            if arrived is not None:
                part["t"] = to_millis(arrived)
            if sub_sequence_number is not None:
                part["i"] = sub_sequence_number
            if last_sub_sequence_number:
                part["l"] = last_sub_sequence_number
            return part


def _position_from_json(part: Mapping[str, Any]) -> Position:
    if "e" in part:
        return Ended()
    if "a" in part:
        return ReadTo(str(int(part["a"])), _moment(part.get("t")), part.get("i"), part.get("l", 0))
    return Unread({"TRIM_HORIZON": None, "AT_TIMESTAMP": _moment(part.get("t"))}[part["p"]])


def _moment(millis: int | None) -> datetime | None:
    return None if millis is None else from_millis(millis)
