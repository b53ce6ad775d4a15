"""Changes of orders as a database's log has them, drawn at random: updates, deletes, late ones, many at the same time;
and which order each key has after all of them, by a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.spark.kinesis_stream import BusyStream

SCHEMA = "id BIGINT NOT NULL, op STRING NOT NULL, updated_at TIMESTAMP NOT NULL, amount BIGINT"
DELETE_WHEN = "op = 'D'"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

Order = tuple[datetime, str, int | None]
"""(updated_at, op, amount)"""


def change(chance: Random, number: int, keys: int) -> dict[str, Any]:
    """A change that is late by up to half an hour. Its time is in minutes, so that many are the same."""
    deletes = chance.random() < 0.2
    at = BEGAN + timedelta(minutes=number // 20 - chance.choice([0, 0, 0, 1, 5, 30]))
    return {
        "id": chance.randrange(keys),
        "op": "D" if deletes else "U",
        "updated_at": at.isoformat(),
        "amount": None if deletes else number,
    }


class OrderStream(BusyStream):
    """A stream of changes. A key's changes are in any shard, as if the producer chose partition keys at random."""

    def __init__(self, client: Any, name: str, seed: int, keys: int = 30) -> None:
        self._changes, self._keys = Random(seed), keys
        super().__init__(client, name, seed)

    def _number(self) -> bytes:
        self.produced.append(json.dumps(change(self._changes, len(self.produced), self._keys)).encode())
        return self.produced[-1]


def latest_orders(raw: Iterable[Mapping[str, Any]]) -> dict[int, Order]:
    """The latest change of each key among the rows of `raw`, by its time and then by its position."""
    found: dict[int, tuple[tuple[datetime, int, int], Order]] = {}
    for row in raw:
        said = json.loads(row["data"])
        at = datetime.fromisoformat(said["updated_at"])
        version = (at, int(row["sequenceNumber"]), row["subSequenceNumber"])
        if said["id"] not in found or found[said["id"]][0] < version:
            found[said["id"]] = (version, (at, said["op"], said["amount"]))
    return {key: order for key, (_, order) in found.items()}


def orders_of(merged: Iterable[Mapping[str, Any]]) -> dict[int, Order]:
    """The rows of the table `merged`, of which each key has one, and of which exactly the deleted ones say so."""
    rows = list(merged)
    assert len({row["id"] for row in rows}) == len(rows), "a key has two rows"
    assert all((row["deletedAt"] is not None) == (row["op"] == "D") for row in rows)
    return {row["id"]: (row["updated_at"], row["op"], row["amount"]) for row in rows}
