"""The SightingStore port over a DynamoDB table of its own (key: `chunk`, a string).

Ten thousand sightings are some hundred kilobytes when compressed: one item, not ten thousand. An item is only written
when it differs from what this process last read or wrote there, so an idle fleet writes nothing here. Sightings are the
items whose name is a number; every other item has a name of its own, and is only written on a condition.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sublet.aws.faults import CONDITION_FAILED, code_of
from sublet.aws.table_errors import named_table_errors, other_key
from sublet.decisions.liveness import Sighting
from sublet.errors import LeaseTableKeyUnexpected
from sublet.ports import Remembered
from sublet.protocol.stream_identity import StreamIdentity

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WHAT = "sightings table"
KEY = "chunk"
DATA = "data"
STREAM = "stream"
ARN, CREATED_AT = "arn", "created_at"

CHUNK_BYTES_MAX = 300_000
"""DynamoDB's limit for an item is 400 KB, names included."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_COLUMNS = ("lease_keys", "counters", "owners", "seen_at")


class DynamoDbSightingStore:
    """The SightingStore port. For one thread: a lease manager's tick. `connect` makes the client, at the first look."""

    def __init__(self, connect: Callable[[], DynamoDBClient], table: str) -> None:
        self._connect = connect
        self._table = table
        self._stored: dict[str, bytes] | None = None
        """The chunks as this process last saw them; None before the first look."""

    @cached_property
    def _client(self) -> DynamoDBClient:
        return self._connect()

    def load(self) -> Remembered:
        with self._named_errors():
            items = self._read()
        self._stored = _chunks(items)
        seen: dict[str, Sighting] = {}
        for chunk in self._stored.values():
            for lease_key, sighting in decode_chunk(chunk):
                seen[lease_key] = max(seen.get(lease_key, sighting), sighting, key=_newest)
        return Remembered(seen, _stream(items.get(STREAM)))

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        """New chunks first, then what is left of older, longer lists: a crash in between leaves only true sightings."""
        chunks = {f"{n:04}": chunk for n, chunk in enumerate(encode_chunks(sorted(sightings.items())))}
        with self._named_errors():
            self._replace(_chunks(self._read()) if self._stored is None else self._stored, chunks)
        self._stored = chunks

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        stands = "attribute_not_exists(#key)"
        names, values = {"#key": KEY}, {}
        if instead_of is not None:
            stands = "#arn = :arn AND #created_at = :created_at"
            names = {"#arn": ARN, "#created_at": CREATED_AT}
            values = {f":{name}": value for name, value in _identity_columns(instead_of).items()}
        return self._put_if({KEY: {"S": STREAM}, **_identity_columns(stream)}, stands, names, values)

    def _put_if(
        self, item: Mapping[str, Any], condition: str, names: Mapping[str, str], values: Mapping[str, Any]
    ) -> bool:
        arguments: dict[str, Any] = {"ExpressionAttributeValues": dict(values)} if values else {}
        try:
            with self._named_errors():
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=condition,
                    ExpressionAttributeNames=names,
                    **arguments,
                )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def _replace(self, stored: Mapping[str, bytes], chunks: Mapping[str, bytes]) -> None:
        for name, chunk in chunks.items():
            if stored.get(name) != chunk:
                self._client.put_item(TableName=self._table, Item={KEY: {"S": name}, DATA: {"B": chunk}})
        for name in stored.keys() - chunks.keys():
            self._client.delete_item(TableName=self._table, Key={KEY: {"S": name}})

    def _named_errors(self) -> AbstractContextManager[None]:
        return named_table_errors(WHAT, self._table, KEY)

    def _read(self) -> dict[str, Mapping[str, Any]]:
        pages = self._client.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True)
        return {self._name(item): item for page in pages for item in page["Items"]}

    def _name(self, item: Mapping[str, Any]) -> str:
        """Every row of our table has one; so a row without is no damage but another table's."""
        name = item.get(KEY, {}).get("S")
        if not isinstance(name, str):
            raise LeaseTableKeyUnexpected(other_key(WHAT, self._table, KEY, f"a row has no {KEY}"))
        return name


def _chunks(items: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    return {name: bytes(item.get(DATA, {}).get("B", b"")) for name, item in items.items() if name.isdigit()}


def _identity_columns(stream: StreamIdentity) -> dict[str, Any]:
    created_at = (stream.created_at - _EPOCH) // _MILLISECOND
    return {ARN: {"S": stream.arn}, CREATED_AT: {"N": str(created_at)}}


def _stream(item: Mapping[str, Any] | None) -> StreamIdentity | None:
    """Nobody else writes this item: one that is damaged is an error, and not taken for none."""
    if item is None:
        return None
    return StreamIdentity(item[ARN]["S"], _EPOCH + int(item[CREATED_AT]["N"]) * _MILLISECOND)


def encode_chunks(items: Sequence[tuple[str, Sighting]]) -> Iterable[bytes]:
    """As few chunks as the item limit allows: halved until each part fits."""
    columns = (
        [lease_key for lease_key, _ in items],
        [sighting.lease_counter for _, sighting in items],
        [sighting.lease_owner for _, sighting in items],
        [(sighting.seen_at - _EPOCH) // _MILLISECOND for _, sighting in items],
    )
    chunk = zlib.compress(
        json.dumps(dict(zip(_COLUMNS, columns, strict=True)), separators=(",", ":")).encode()
    )
    if len(chunk) <= CHUNK_BYTES_MAX or len(items) == 1:
        return [chunk] if items else []
    half = len(items) // 2
    return [*encode_chunks(items[:half]), *encode_chunks(items[half:])]


def decode_chunk(chunk: bytes) -> Sequence[tuple[str, Sighting]]:
    """Nothing from an item that is not ours or damaged: sightings lost only delay an expiry."""
    try:
        columns = json.loads(zlib.decompress(chunk))
        rows = zip(*(columns[name] for name in _COLUMNS), strict=True)
        return [_sighting(*row) for row in rows]
    except (zlib.error, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return []


def _sighting(key: object, counter: object, owner: object, seen_at: object) -> tuple[str, Sighting]:
    """Raises TypeError: the newest of two is found by comparing, and what cannot be compared would stop every tick."""
    if not (isinstance(key, str) and isinstance(counter, int) and isinstance(seen_at, int)):
        raise TypeError("no lease key, counter and moment")
    if not isinstance(owner, str | None):
        raise TypeError("no worker id")
    return key, Sighting(counter, owner, _EPOCH + seen_at * _MILLISECOND)


def _newest(sighting: Sighting) -> tuple[int, datetime]:
    """Two ticks may leave a lease in two chunks: a counter only rises, and the later sighting expires no lease too soon."""
    return (sighting.lease_counter, sighting.seen_at)
