"""The offsets of a query of several streams in Spark's offset log: one for each stream, and their JSON. Pure.

    {"v":2, "streams":{
        "123456789012:orders:1795227170": {"stream":"orders", "arn":"arn:...", "created":1795227170308, "shards":{...}},
        "123456789012:audit:1795227199": ...}}

Each stream's part equals the offset of a query of that stream alone, so the checkpoint of such a query can be
continued. A part stays when the option no longer names its stream, and its positions wait until the stream is named
again.

initial   a query that has planned nothing yet

In memory the shards are named by stream and shard, as the leases of an application of several streams are; in the JSON
by their own ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sublet.errors import OffsetMalformed
from sublet.protocol.stream_key import StreamKey, in_stream, own_id
from sublet.spark.plan.offsets import (
    VERSION,
    Offset,
    ShardOffset,
    damaged_offset,
    offset_from_json,
    offset_to_json,
)

VERSION_OF_SEVERAL = 2


@dataclass(frozen=True, slots=True)
class OffsetOfSeveral:
    """How far a query has read each of its streams, now or earlier. Every part has shards."""

    streams: Mapping[StreamKey, Offset] = field(default_factory=dict)

    @property
    def shards(self) -> Mapping[str, ShardOffset]:
        """The shards of all streams, by stream and shard."""
        return {name: shard for part in self.streams.values() for name, shard in part.shards.items()}


AnyOffset = Offset | OffsetOfSeveral


def any_offset_to_json(offset: AnyOffset) -> dict[str, Any]:
    if isinstance(offset, Offset):
        return offset_to_json(offset)
    return {
        "v": VERSION_OF_SEVERAL,
        **({} if offset.streams else {"initial": 1}),
        "streams": {str(key): _part_to_json(offset.streams[key]) for key in sorted(offset.streams)},
    }


def any_offset_from_json(data: Any) -> AnyOffset:
    """Raises OffsetMalformed as `offset_from_json` does."""
    if not isinstance(data, Mapping) or data.get("v") != VERSION_OF_SEVERAL:
        return offset_from_json(data)
    try:
        offset = OffsetOfSeveral(dict(_parts_from_json(data["streams"])))
    except (KeyError, TypeError, ValueError, AttributeError) as damage:
        raise damaged_offset(str(data), damage) from damage
    if not offset.streams and "initial" not in data:
        raise damaged_offset(str(data), ValueError("it names no stream"))
    return offset


def as_of_several(offset: AnyOffset) -> OffsetOfSeveral:
    """Treats a checkpoint of one stream as a checkpoint of several, of which only one has been read so far. Raises
    OffsetMalformed for a checkpoint with leases, because their rows are of one stream.
    """
    if isinstance(offset, OffsetOfSeveral):
        return offset
    if not offset.shards:
        return OffsetOfSeveral()
    if offset.application is not None:
        raise OffsetMalformed(
            f"the query's checkpoint was written with the leases of {offset.application}, which are of one stream "
            f"({offset.stream}). Several need another application: give the query one, and a new checkpointLocation"
        )
    key = StreamKey.of(offset.identity)
    return OffsetOfSeveral({key: _named(key, offset)})


def as_of_one(offset: AnyOffset) -> Offset:
    """Raises OffsetMalformed for a checkpoint of several streams."""
    if isinstance(offset, Offset):
        return offset
    streams = ", ".join(str(key) for key in sorted(offset.streams))
    raise OffsetMalformed(
        f"the query's checkpoint is one of several streams ({streams}), but the option stream names one. Name it as "
        "one of "
        'several, with its start position: .option("stream", "orders@TRIM_HORIZON"). Or give the query a new '
        "checkpointLocation"
    )


def _parts_from_json(parts: Mapping[str, Any]) -> Iterator[tuple[StreamKey, Offset]]:
    for text, part in parts.items():
        key = StreamKey.parse(text)
        if key is None:
            raise ValueError(f"{text} is not a stream's key")
        offset = offset_from_json({"v": VERSION, **part})
        if not offset.shards:
            raise ValueError(f"its part for stream {text} names no shard")
        yield key, _named(key, offset)


def _part_to_json(part: Offset) -> dict[str, Any]:
    own = {own_id(name): shard for name, shard in part.shards.items()}
    return {name: value for name, value in offset_to_json(replace(part, shards=own)).items() if name != "v"}


def _named(key: StreamKey, offset: Offset) -> Offset:
    return replace(offset, shards={in_stream(key, shard_id): shard for shard_id, shard in offset.shards.items()})
