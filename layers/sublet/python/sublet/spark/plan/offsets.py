"""The offsets of a query in Spark's offset log: values, and their JSON. Pure.

A query of one stream:

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
          again from its last record on (`decisions.session.quiet`). Holds only for the position beside it
d, auto   how the stream was last described before the batch was planned: at `t`, with a retention of `r` seconds and,
          if known, the record distribution `s`; until when AUTO may have placed records. Tasks decide by these alone
          which aggregates outside the range to drop, so that a repeated task drops the same ones. They outlive the
          process
initial   a query that has planned nothing yet. An offset without shards and without this mark is damaged, and would
          have everything read from the start

Times are milliseconds since the epoch.

A query of several streams has a part for each, which equals the offset of a query of that stream alone:

    {"v":2, "streams":{
        "123456789012:orders:1795227170": {"stream":"orders", "arn":"arn:...", "created":1795227170308, "shards":{...}},
        "123456789012:audit:1795227199": ...}}

So several can continue the checkpoint of one. A part stays when the option no longer names its stream, and its
positions wait until the stream is named again. `initial` stands beside `streams`. In memory the shards of several are
named by stream and shard, as their leases are; in the JSON by their own ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sublet.errors import OffsetMalformed
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement, RecordDistribution, StreamDescription
from sublet.protocol.stream_key import StreamKey, in_stream, own_id

VERSION = 1
VERSION_OF_SEVERAL = 2

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
class StreamOffset:
    """How far a query has read one of its streams. It has no shards before the first plan. `application`: whose leases
    the query holds. `placement`: who places the stream's records, as known when the batch that ends here was planned.
    """

    stream: str
    identity: StreamIdentity
    shards: Mapping[str, ShardOffset] = field(default_factory=dict)
    application: str | None = None
    placement: Placement = NOT_DESCRIBED


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a query has read each of its streams, now or earlier. A query of one stream has only that, under the key
    None. Of several, every part has shards.
    """

    streams: Mapping[StreamKey | None, StreamOffset] = field(default_factory=dict)

    @property
    def shards(self) -> Mapping[str, ShardOffset]:
        """The shards of all streams, by lease key."""
        return {name: shard for part in self.streams.values() for name, shard in part.shards.items()}


def to_millis(moment: datetime) -> int:
    """Rounds down."""
    return (moment - _EPOCH) // _MILLISECOND


def from_millis(millis: int) -> datetime:
    return _EPOCH + millis * _MILLISECOND


def offset_to_json(offset: Offset) -> dict[str, Any]:
    """Sorts streams and shards, so that equal offsets are equal text: Spark compares text."""
    if None in offset.streams:
        return {"v": VERSION, **_stream_to_json(offset.streams[None])}
    return {
        "v": VERSION_OF_SEVERAL,
        **({} if offset.streams else {"initial": 1}),
        "streams": {str(key): _stream_to_json(offset.streams[key]) for key in sorted(filter(None, offset.streams))},
    }


def offset_from_json(data: Any) -> Offset:
    """Raises OffsetMalformed if the JSON is damaged, or was written by another source or version."""
    if not isinstance(data, Mapping) or data.get("v") != VERSION_OF_SEVERAL:
        return Offset({None: _stream_from_json(data)})
    try:
        offset = Offset(dict(_parts_from_json(data["streams"])))
    except (KeyError, TypeError, ValueError, AttributeError) as damage:
        raise damaged_offset(str(data), damage) from damage
    if not offset.streams and "initial" not in data:
        raise damaged_offset(str(data), ValueError("it names no stream"))
    return offset


def as_of_several(offset: Offset) -> Offset:
    """Treats a checkpoint of one stream as a checkpoint of several, of which only one has been read so far. Raises
    OffsetMalformed for a checkpoint with leases, because their rows are of one stream.
    """
    if None not in offset.streams:
        return offset
    part = offset.streams[None]
    if not part.shards:
        return Offset()
    if part.application is not None:
        raise OffsetMalformed(
            f"the query's checkpoint was written with the leases of {part.application}, which are of one stream "
            f"({part.stream}). Several need another application: give the query one, and a new checkpointLocation"
        )
    key = StreamKey.of(part.identity)
    return Offset({key: _in_stream(key, part)})


def as_of_one(offset: Offset) -> Offset:
    """Raises OffsetMalformed for a checkpoint of several streams."""
    if None in offset.streams:
        return offset
    streams = ", ".join(str(key) for key in sorted(filter(None, offset.streams)))
    raise OffsetMalformed(
        f"the query's checkpoint is one of several streams ({streams}), but the option stream names one. Name it as "
        'one of several, with its start position: .option("stream", "orders@TRIM_HORIZON"). Or give the query a new '
        "checkpointLocation"
    )


def damaged_offset(text: str, damage: Exception) -> OffsetMalformed:
    """The error for text in Spark's log that is not an offset of ours."""
    return OffsetMalformed(
        f"the checkpoint's offset {text[:200]!r} is not sublet's, or is damaged ({type(damage).__name__}: {damage}): "
        "put the file in `offsets` below the checkpointLocation back from a copy, or give the query a new "
        "checkpointLocation"
    )


def _parts_from_json(parts: Mapping[str, Any]) -> Iterator[tuple[StreamKey, StreamOffset]]:
    for text, part in parts.items():
        key = StreamKey.parse(text)
        if key is None:
            raise ValueError(f"{text} is not a stream's key")
        offset = _stream_from_json({"v": VERSION, **part})
        if not offset.shards:
            raise ValueError(f"its part for stream {text} names no shard")
        yield key, _in_stream(key, offset)


def _in_stream(key: StreamKey, part: StreamOffset) -> StreamOffset:
    return replace(part, shards={in_stream(key, shard_id): shard for shard_id, shard in part.shards.items()})


def _stream_to_json(part: StreamOffset) -> dict[str, Any]:
    shards = {own_id(name): shard for name, shard in part.shards.items()}
    return {
        "stream": part.stream,
        "arn": part.identity.arn,
        "created": to_millis(part.identity.created_at),
        **({} if part.application is None else {"application": part.application}),
        **_placement_to_json(part.placement),
        **({} if shards else {"initial": 1}),
        "shards": {shard_id: _shard_to_json(shards[shard_id]) for shard_id in sorted(shards)},
    }


def _stream_from_json(data: Mapping[str, Any]) -> StreamOffset:
    """The offset of a query of this stream alone."""
    try:
        if data["v"] != VERSION:
            raise OffsetMalformed(
                f"the checkpoint's offsets have version {data['v']!r}; this sublet reads {VERSION}: "
                "use the sublet that wrote them"
            )
        identity = StreamIdentity(data["arn"], from_millis(data["created"]))
        offset = StreamOffset(
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
