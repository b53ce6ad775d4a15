"""The stream's last description, kept in the sightings table, so that one process describes it for the whole
application."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from sublet.aws.tables.sighting_chunks import millis, moment
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, RecordDistribution, StreamDescription
from sublet.protocol.stream_key import StreamKey

KEY, NAME = "chunk", "described"
ASKED_AT, AUTO_SEEN_AT = "asked_at", "auto_seen_at"
ARN, CREATED_AT, AT, RETENTION, DISTRIBUTION = "arn", "created_at", "at", "retention", "distribution"
SECOND = timedelta(seconds=1)

KNOWN_STREAM, GONE_AT = "stream ", "gone_at"
"""Begins the names of the items about the streams of an application of several."""


def described_item(placement: Placement, asked_at: datetime) -> dict[str, Any]:
    last, seen = placement.last, placement.auto_seen_at
    columns: dict[str, Any] = {KEY: {"S": NAME}, ASKED_AT: _number(millis(asked_at))}
    if last is not None:
        columns |= {
            ARN: {"S": last.identity.arn},
            CREATED_AT: _number(millis(last.identity.created_at)),
            AT: _number(millis(last.at)),
            RETENTION: _number(last.retention // SECOND),
        }
        if last.distribution is not None:
            columns[DISTRIBUTION] = {"S": last.distribution.value}
    return columns if seen is None else columns | {AUTO_SEEN_AT: _number(millis(seen))}


def described_of(item: Mapping[str, Any] | None) -> tuple[Placement, datetime | None]:
    """The description and when it was last requested. An unreadable item counts as missing: the next tick asks
    again.
    """
    if item is None:
        return Placement(), None
    return Placement(_description(item), _moment(item, AUTO_SEEN_AT)), _moment(item, ASKED_AT)


def known_stream_item(stream: StreamKey, known: KnownStream) -> dict[str, Any]:
    """One item for each stream, so that lease managers with different lists do not replace each other's notes."""
    gone = {} if known.gone_at is None else {GONE_AT: _number(millis(known.gone_at))}
    columns = described_item(known.placement, known.named_at)
    return {**columns, KEY: {"S": KNOWN_STREAM + str(stream)}, **gone}


def known_streams_of(items: Mapping[str, Mapping[str, Any]]) -> Mapping[StreamKey, KnownStream]:
    """Unreadable items, damaged or of a later version, are ignored: a stream is then found again."""
    known = {}
    for name, item in items.items():
        stream = StreamKey.parse(name.removeprefix(KNOWN_STREAM)) if name.startswith(KNOWN_STREAM) else None
        if stream is not None:
            with suppress(KeyError, ValueError, OverflowError):
                placement, named_at = described_of(item)
                if named_at is not None:
                    known[stream] = KnownStream(named_at, _moment(item, GONE_AT), placement)
    return known


def _description(item: Mapping[str, Any]) -> StreamDescription | None:
    with suppress(KeyError, ValueError, OverflowError):
        identity = StreamIdentity(item[ARN]["S"], moment(int(item[CREATED_AT]["N"])))
        distribution = item.get(DISTRIBUTION, {}).get("S")
        return StreamDescription(
            identity,
            moment(int(item[AT]["N"])),
            int(item[RETENTION]["N"]) * SECOND,
            None if distribution is None else RecordDistribution(distribution),
        )
    return None


def _moment(item: Mapping[str, Any], name: str) -> datetime | None:
    return moment(int(item[name]["N"])) if name in item else None


def _number(value: int) -> dict[str, str]:
    return {"N": str(value)}
