"""The SightingStore port over a DynamoDB table of its own (key: `chunk`, a string).

Ten thousand sightings compress to some hundred kilobytes, so they are one item, not ten thousand. An item is written
only if it differs from what this process last read or wrote there; an idle fleet writes nothing. Items with a numeric
key hold sightings; every other item has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sublet.aws.faults import CONDITION_FAILED, code_of
from sublet.aws.tables.sighting_chunks import (
    MILLISECOND,
    decode_chunk,
    decode_dispatched,
    decode_unread,
    encode_chunks,
    encode_dispatched,
    encode_unread,
    millis,
    moment,
)
from sublet.aws.tables.sighting_description import (
    ASKED_AT,
    KNOWN_STREAM,
    described_item,
    described_of,
    known_stream_item,
    known_streams_of,
)
from sublet.aws.tables.sighting_description import NAME as DESCRIBED
from sublet.aws.tables.table_errors import named_table_errors, other_key
from sublet.decisions.manager.dispatching import PROMPTED_TICK_ENDS_WITHIN, DispatchedWorker
from sublet.decisions.manager.joins_and_drains import Announcement, AnnouncementKind
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.errors import LeaseTableKeyUnexpected
from sublet.ports import Remembered
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WHAT = "sightings table"
KEY = "chunk"
DATA = "data"

UNREAD = "unread"
DISPATCHED, ROUND = "dispatched", "round"
PROMPTED, TOKEN, AT, AGAIN = "prompted", "token", "at", "looks_again"
STREAM = "stream"
ARN, CREATED_AT = "arn", "created_at"
DEFINITION, OPTIONS = "definition", "options"

ANNOUNCED, WHAT_IS_SAID = "announced ", "what"
"""One item per worker id: many join and leave at the same time, and must not wait for each other's writes."""

TRIES = 10
"""Two requests each. Between them, the tick that answers prompts may have ended, or another begun."""


class DynamoDbSightingStore:
    """The SightingStore port. Not thread-safe: used by a lease manager's tick alone. `connect` makes the client on
    first use."""

    def __init__(self, connect: Callable[[], DynamoDBClient], table: str) -> None:
        self._connect = connect
        self._table = table
        self._stored: dict[str, bytes] | None = None
        """The chunks as this process last saw them; None before the first load."""

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
        last = items.get(DISPATCHED, {})
        return Remembered(
            seen,
            stream_of(items.get(STREAM)),
            decode_dispatched(_data(last)),
            decode_unread(_data(items.get(UNREAD, {}))),
            int(last.get(ROUND, {}).get("N", 0)),
            _definition(items.get(DEFINITION)),
            _announced(items),
            *described_of(items.get(DESCRIBED)),
            known_streams_of(items),
        )

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        """Writes new chunks before deleting those left of a longer list: after a crash in between, all sightings are
        still true."""
        chunks = {f"{n:04}": chunk for n, chunk in enumerate(encode_chunks(sorted(sightings.items())))}
        with self._named_errors():
            self._replace(_chunks(self._read()) if self._stored is None else self._stored, chunks)
        self._stored = chunks

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        item = {KEY: {"S": STREAM}, **_identity_columns(stream)}
        if instead_of is None:
            return self._put_if(item, "attribute_not_exists(#chunk)", {"#chunk": KEY}) is None
        names = {"#arn": ARN, "#created_at": CREATED_AT}
        stands = "#arn = :arn AND #created_at = :created_at"
        return self._put_if(item, stands, names, _named(_identity_columns(instead_of))) is None

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        item = described_item(seen.placement, now)
        if seen.asked_at is None:
            return self._put_if(item, "attribute_not_exists(#asked_at)", {"#asked_at": ASKED_AT}) is None
        before = {":asked_at": {"N": str(millis(seen.asked_at))}}
        return self._put_if(item, "#asked_at = :asked_at", {"#asked_at": ASKED_AT}, before) is None

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        with self._named_errors():
            self._client.put_item(TableName=self._table, Item=described_item(placement, asked_at))

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        with self._named_errors():
            for stream, known in streams.items():
                self._client.put_item(TableName=self._table, Item=known_stream_item(stream, known))

    def forget_stream(self, stream: StreamKey) -> None:
        with self._named_errors():
            self._client.delete_item(TableName=self._table, Key={KEY: {"S": KNOWN_STREAM + str(stream)}})

    def define(self, definition: Mapping[str, str], instead_of: Mapping[str, str] | None) -> bool:
        """A refusal by our own value is a success: the response was lost, and botocore repeated the call."""
        options, names = _option_column(definition), {"#options": OPTIONS}
        item = {KEY: {"S": DEFINITION}, OPTIONS: options}
        if instead_of is None:
            refused_by = self._put_if(item, "attribute_not_exists(#options)", names)
        else:
            values = {":options": _option_column(instead_of)}
            refused_by = self._put_if(item, "#options = :options", names, values)
        return refused_by is None or refused_by.get(OPTIONS) == options

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
        """A refusal by our own value is a success: the response was lost, and botocore repeated the call."""
        data = {"B": encode_dispatched(sorted(dispatched.items()))}
        item = {KEY: {"S": DISPATCHED}, DATA: data, ROUND: {"N": str(seen_round + 1)}}
        stands = "#round = :round" if seen_round else "attribute_not_exists(#round)"
        values = {":round": {"N": str(seen_round)}} if seen_round else {}
        refused_by = self._put_if(item, stands, {"#round": ROUND}, values)
        return refused_by is None or _data(refused_by) == data["B"]

    def keep_unread(self, unread: Mapping[str, UnreadShard]) -> None:
        item: dict[str, Any] = {KEY: {"S": UNREAD}, DATA: {"B": encode_unread(unread)}}
        with self._named_errors():
            self._client.put_item(TableName=self._table, Item=item)

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        item: dict[str, Any] = {KEY: {"S": ANNOUNCED + worker_id}, WHAT_IS_SAID: {"S": said.what.value}}
        with self._named_errors():
            self._client.put_item(TableName=self._table, Item={**item, AT: {"N": str(millis(said.at))}})
            for other in set(lapsed) - {worker_id}:
                self._client.delete_item(TableName=self._table, Key={KEY: {"S": ANNOUNCED + other}})

    def begin_prompted(self, token: str, now: datetime) -> bool:
        for _ in range(TRIES):
            ticking = self._begin(token, now)
            if ticking is None or ticking[TOKEN] == {"S": token}:
                return True
            told = {**ticking, AGAIN: {"BOOL": True}}
            if self._put_if(told, "#token = :token", {"#token": TOKEN}, {":token": ticking[TOKEN]}) is None:
                return False
        return True

    def _begin(self, token: str, now: datetime) -> Mapping[str, Any] | None:
        """None if we may begin; otherwise the item that names the tick that is running."""
        within = PROMPTED_TICK_ENDS_WITHIN // MILLISECOND - 1
        return self._put_if(
            {KEY: {"S": PROMPTED}, TOKEN: {"S": token}, AT: {"N": str(millis(now))}},
            "attribute_not_exists(#at) OR NOT #at BETWEEN :from AND :to",
            {"#at": AT},
            {":from": {"N": str(millis(now) - within)}, ":to": {"N": str(millis(now) + within)}},
        )

    def end_prompted(self, token: str) -> bool:
        try:
            with self._named_errors():
                was = self._client.delete_item(
                    TableName=self._table,
                    Key={KEY: {"S": PROMPTED}},
                    ConditionExpression="#token = :token",
                    ExpressionAttributeNames={"#token": TOKEN},
                    ExpressionAttributeValues={":token": {"S": token}},
                    ReturnValues="ALL_OLD",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return "Item" not in error.response
        return AGAIN in was.get("Attributes", {})

    def _put_if(
        self,
        item: Mapping[str, Any],
        condition: str,
        names: Mapping[str, str],
        values: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any] | None:
        """None if it was written; otherwise the item that refused it."""
        arguments: dict[str, Any] = {"ExpressionAttributeValues": values} if values else {}
        try:
            with self._named_errors():
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=condition,
                    ExpressionAttributeNames=names,
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **arguments,
                )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            reply: Any = error.response
            return reply.get("Item", {})  # type: ignore[no-any-return]
        return None

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
        """Every row of our table has the key, so a row without it is not a damaged row: the table is another one."""
        name = item.get(KEY, {}).get("S")
        if not isinstance(name, str):
            raise LeaseTableKeyUnexpected(other_key(WHAT, self._table, KEY, f"a row has no {KEY}"))
        return name


def _chunks(items: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    return {name: _data(item) for name, item in items.items() if name.isdigit()}


def _announced(items: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Announcement]:
    """Unreadable items, damaged or of a later version, are ignored."""
    said: dict[str, Announcement] = {}
    for name, item in items.items():
        if name.startswith(ANNOUNCED):
            with suppress(KeyError, ValueError, OverflowError):
                what, at = AnnouncementKind(item[WHAT_IS_SAID]["S"]), moment(int(item[AT]["N"]))
                said[name.removeprefix(ANNOUNCED)] = Announcement(what, at)
    return said


def _data(item: Mapping[str, Any]) -> bytes:
    return bytes(item.get(DATA, {}).get("B", b""))


def _named(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {f":{name}": value for name, value in columns.items()}


def _identity_columns(stream: StreamIdentity) -> dict[str, Any]:
    return {ARN: {"S": stream.arn}, CREATED_AT: {"N": str(millis(stream.created_at))}}


def _option_column(definition: Mapping[str, str]) -> dict[str, Any]:
    return {"M": {name: {"S": text} for name, text in definition.items()}}


def _definition(item: Mapping[str, Any] | None) -> Mapping[str, str] | None:
    return None if item is None else {name: value["S"] for name, value in item[OPTIONS]["M"].items()}


def stream_of(item: Mapping[str, Any] | None) -> StreamIdentity | None:
    """Raises on a damaged item: only we write it, so it must not count as missing."""
    if item is None:
        return None
    return StreamIdentity(item[ARN]["S"], moment(int(item[CREATED_AT]["N"])))


def _newest(sighting: Sighting) -> tuple[int, datetime]:
    """Two ticks may leave a lease in two chunks. A counter only rises, and with the later sighting no lease expires
    too soon."""
    return (sighting.lease_counter, sighting.seen_at)
