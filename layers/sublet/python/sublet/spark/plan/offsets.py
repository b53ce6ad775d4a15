"""The offsets of one stream in Spark's offset log: values, and their JSON. Pure.

    {"v":1, "stream":"orders", "arn":"arn:...", "created":1795227170308, "shards":{
        "shardId-0": {"e":1},
        "shardId-3": {"a":"4968...", "t":1795227170308},
        "shardId-4": {"a":"4968...", "t":1795227170308, "f":{"p":"TRIM_HORIZON"}}}}

e         the shard is read to its end
a, t, i   the last stream record read, by sequence number; when it arrived; only its user records up to this
          sub-sequence number
p         nothing is read yet; from the trim horizon, or from the time `t`
f         where this offset's batch began, for a shard that the previous offset lacks. So a batch can be planned again
          from the log alone, and LATEST is a fixed time from the first plan on
c         a time before which nothing unread arrived, of the shard or, beside `e`, of its children
q         no record beyond the position arrived before this time, by Kinesis' own clock, so an idle shard is not walked
          again from its last record on (`decisions.quiet`). Holds only for the position beside it
d, auto   how the stream was last described before the batch was planned: at `t`, with a retention of `r` seconds and,
          if known, the record distribution `s`; until when AUTO may have placed records. Tasks decide by these alone
          which aggregates outside the range to drop, so that a repeated task drops the same ones. They outlive the
          process
initial   a query that has planned nothing yet. An offset without shards and without this mark is damaged, and would
          have everything read from the start

Times are milliseconds since the epoch.
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
    """Nothing of the shard has been read. It starts at the time `at`, or (None) at the trim horizon."""

    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReadTo:
    """Everything up to and including this stream record has been read.

    arrived                   None if not known, because the position is a checkpoint of the lease table
    sub_sequence_number       only this record's user records up to this one were read: a checkpoint in mid-aggregate
    last_sub_sequence_number  that of the record's last user record, which a checkpoint after the whole record names
    """

    sequence_number: str
    arrived: datetime | None = None
    sub_sequence_number: int | None = None
    last_sub_sequence_number: int = 0

    def is_before(self, sequence_number: str) -> bool:
        """True if something of that stream record is still to be read."""
        ours, other = int(self.sequence_number), int(sequence_number)
        return ours < other or (ours == other and self.sub_sequence_number is not None)


@dataclass(frozen=True, slots=True)
class Ended:
    """The shard has been read to its end, or is not ours: it was closed before the query's start position."""


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
    """How far a query has read a stream. It has no shards before the first plan. `application`: whose leases the query
    holds. `placement`: who places the stream's records, as known when the batch that ends here was planned.
    """

    stream: str
    identity: StreamIdentity
    shards: Mapping[str, ShardOffset] = field(default_factory=dict)
    application: str | None = None
    placement: Placement = NOT_DESCRIBED


def to_millis(moment: datetime) -> int:
    """Rounds down."""
    return (moment - _EPOCH) // _MILLISECOND


def from_millis(millis: int) -> datetime:
    return _EPOCH + millis * _MILLISECOND


def offset_to_json(offset: Offset) -> dict[str, Any]:
    """Sorts shards by id, so that equal offsets are equal text: Spark compares text."""
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
    """Raises OffsetMalformed if the JSON is damaged, or was written by another source or version."""
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
    """The error for text in Spark's log that is not an offset of ours."""
    return OffsetMalformed(
        f"the checkpoint's offset {text[:200]!r} is not sublet's, or is damaged ({type(damage).__name__}: {damage}): "
        "put the file in `offsets` below the checkpointLocation back from a copy, or give the query a new "
        "checkpointLocation"
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
