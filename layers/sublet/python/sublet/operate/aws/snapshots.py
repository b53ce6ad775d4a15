"""The SnapshotStore port: items of the sightings table, which ticks ignore, since their keys are not numbers.

A snapshot of thousands of shards is larger than an item may be, so it is kept in parts. The first item names the others
by a hash of the whole, so a reader notices a part that is missing or left over from another write. A writer that is
killed may leave parts behind that no first item names: the next snapshot after a day deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sublet.aws.tables.sighting_chunks import CHUNK_BYTES_MAX
from sublet.aws.tables.sightings import DATA, KEY, WHAT
from sublet.aws.tables.table_errors import named_table_errors
from sublet.errors import SnapshotUnreadable
from sublet.protocol.snapshot import Snapshot, decode_snapshot, encode_snapshot, in_order, unreadable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FIRST, OTHERS = "snapshot ", "snapshot-part "
"""How an item's key begins; the snapshot's name follows. The keys of further parts end in `/<digest>/<number>`."""

PARTS, DIGEST = "parts", "digest"
TAKEN_AT = "taken_at"
"""When a part was taken, in epoch seconds."""

ABANDONED_AFTER = timedelta(days=1)
"""How long parts without a first item are kept, since their writer may be at work: a seek stores its snapshot again at
its end.
"""


class DynamoDbSnapshotStore:
    """The SnapshotStore port. `connect` returns the client."""

    def __init__(self, connect: Callable[[], DynamoDBClient], table: str) -> None:
        self._connect = connect
        self._table = table

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Writes the first item last, so that a snapshot is either whole or not there."""
        whole = encode_snapshot(snapshot)
        first, *others = [whole[at : at + CHUNK_BYTES_MAX] for at in range(0, len(whole), CHUNK_BYTES_MAX)]
        digest = sha256(whole).hexdigest()
        named: dict[str, Any] = {PARTS: {"N": str(1 + len(others))}, DIGEST: {"S": digest}}
        before = self._others(snapshot.name)
        for number, part in enumerate(others, 1):
            self._put(
                _key(snapshot.name, digest, number),
                {DATA: {"B": part}, TAKEN_AT: _seconds(snapshot.taken_at)},
            )
        self._put(FIRST + snapshot.name, {DATA: {"B": first}, **(named if others else {})})
        self._delete(key for key in before if f"/{digest}/" not in key)
        self._delete(_abandoned(self._items(KEY, PARTS, DIGEST, TAKEN_AT), snapshot.taken_at))

    def _items(self, *columns: str) -> Mapping[str, Mapping[str, Any]]:
        """The items, by key. Without `columns` each is read whole."""
        some: dict[str, Any] = {"ConsistentRead": True}
        if columns:
            some["ProjectionExpression"] = ", ".join(f"#{name}" for name in columns)
            some["ExpressionAttributeNames"] = {f"#{name}": name for name in columns}
        with named_table_errors(WHAT, self._table, KEY):
            pages = self._connect().get_paginator("scan").paginate(TableName=self._table, **some)
            return {item[KEY]["S"]: item for page in pages for item in page["Items"]}

    def snapshots(self) -> tuple[Snapshot, ...]:
        items = self._items()
        names = (key.removeprefix(FIRST) for key in items if key.startswith(FIRST))
        return in_order(_read(name, items) for name in names)

    def delete_snapshot(self, name: str) -> None:
        others = self._others(name)
        self._delete((FIRST + name, *others))

    def _others(self, name: str) -> tuple[str, ...]:
        """The keys of the other items of the snapshot that is kept under this name."""
        with named_table_errors(WHAT, self._table, KEY):
            reply = self._connect().get_item(
                TableName=self._table,
                Key={KEY: {"S": FIRST + name}},
                ConsistentRead=True,
                ProjectionExpression="#parts, #digest",
                ExpressionAttributeNames={"#parts": PARTS, "#digest": DIGEST},
            )
        return _keys_of_others(name, reply.get("Item", {}))

    def _put(self, key: str, columns: Mapping[str, Any]) -> None:
        with named_table_errors(WHAT, self._table, KEY):
            self._connect().put_item(TableName=self._table, Item={KEY: {"S": key}, **columns})

    def _delete(self, keys: Iterable[str]) -> None:
        with named_table_errors(WHAT, self._table, KEY):
            for key in keys:
                self._connect().delete_item(TableName=self._table, Key={KEY: {"S": key}})


def _key(name: str, digest: str, number: int) -> str:
    return f"{OTHERS}{name}/{digest}/{number:04}"


def _keys_of_others(name: str, first: Mapping[str, Any]) -> tuple[str, ...]:
    if PARTS not in first:
        return ()
    return tuple(_key(name, first[DIGEST]["S"], number) for number in range(1, int(first[PARTS]["N"])))


def _abandoned(items: Mapping[str, Mapping[str, Any]], now: datetime) -> list[str]:
    """The keys of parts that no first item names, and that are too old to be named soon."""
    named = {
        key
        for first, item in items.items()
        if first.startswith(FIRST)
        for key in _keys_of_others(first.removeprefix(FIRST), item)
    }
    parts = {key: item for key, item in items.items() if key.startswith(OTHERS) and TAKEN_AT in item}
    before = int(_seconds(now - ABANDONED_AFTER)["N"])
    return [key for key, part in parts.items() if key not in named and int(part[TAKEN_AT]["N"]) < before]


def _seconds(at: datetime) -> dict[str, str]:
    return {"N": str(int(at.timestamp()))}


def _read(name: str, items: Mapping[str, Mapping[str, Any]]) -> Snapshot:
    try:
        keys = (FIRST + name, *_keys_of_others(name, items[FIRST + name]))
        if missing := [key for key in keys if key not in items]:
            return unreadable(name, f"{len(missing)} of its {len(keys)} parts are missing")
        return decode_snapshot(b"".join(bytes(items[key][DATA]["B"]) for key in keys))
    except SnapshotUnreadable as problem:
        return unreadable(name, str(problem))
    except (KeyError, TypeError, ValueError) as problem:
        return unreadable(name, f"its item is damaged: {type(problem).__name__}: {problem}")
