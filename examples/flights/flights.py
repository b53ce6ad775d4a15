"""Adds up counts and delays per carrier in DynamoDB, so that a batch that comes twice is counted once.

sublet delivers at least once: after a crash, the records since the last checkpoint come again. So a handler that adds
up must know what it has already added. This one keeps one row per shard, with its position in the shard *and* the
totals up to there. Both change in one write, so they always agree, whenever a worker dies.

A producer repeats too: if Kinesis' reply is lost, it puts the same events again, as other records. The handler
recognizes them by their running number: the row keeps the runs of consecutive numbers of every partition key, which
also show gaps.

It needs one table with the key `shard_id` (text), named by FLIGHTS_TABLE.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
from sublet import Batch, Checkpoint, UserRecord

FIGURES = ("flights", "departed", "departure_delay", "arrived", "arrival_delay")


@dataclass(slots=True)
class ShardTotals:
    """One shard's row."""

    shard_id: str
    version: int = 0
    position: tuple[int, int] = (-1, -1)
    """(sequence number, sub-sequence number) of the last record in the totals."""
    events: int = 0
    redelivered: int = 0
    """Records that came again."""
    repeated: int = 0
    """Records whose event was in the shard already: its producer put it twice."""
    out_of_order: int = 0
    carriers: dict[str, list[int]] = field(default_factory=dict)
    """FIGURES by carrier."""
    keys: dict[str, list[list[int]]] = field(default_factory=dict)
    """The first and last number of each run of consecutive numbers, by partition key. There is one run if nothing went
    wrong and no other worker had the shard meanwhile.
    """
    began_at: float | None = None
    ended_at: float | None = None
    """When the first batch (`began_at`) and the last batch were added, as Unix time."""

    def add(self, records: Iterable[UserRecord], now: float) -> None:
        """Add the records that are not added yet."""
        for record in records:
            position = (int(record.sequence_number), record.sub_sequence_number)
            if position <= self.position:
                self.redelivered += 1
                continue
            self.position = position
            self._add(json.loads(record.data))
            self.began_at = now if self.began_at is None else self.began_at
            self.ended_at = now

    def _add(self, flight: Mapping[str, Any]) -> None:
        number, runs = flight["number"], self.keys.setdefault(flight["key"], [])
        if any(first <= number <= last for first, last in reversed(runs)):
            self.repeated += 1
            return
        self.events += 1
        figures = self.carriers.setdefault(flight["carrier"], [0] * len(FIGURES))
        figures[0] += 1
        if flight["departure_delay"] is not None:
            figures[1] += 1
            figures[2] += flight["departure_delay"]
        if flight["arrival_delay"] is not None:
            figures[3] += 1
            figures[4] += flight["arrival_delay"]
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
            return
        self.out_of_order += bool(runs)
        runs.append([number, number])

    def row(self) -> dict[str, Any]:
        """The row as an item. Figures are readable; the thousands of keys are compressed to a few KB."""
        moments = {"began_at": str(self.began_at), "ended_at": str(self.ended_at)} if self.began_at is not None else {}
        return moments | {
            "shard_id": self.shard_id,
            "version": self.version,
            "sequence_number": str(self.position[0]),  # text: DynamoDB's numbers have at most 38 digits, Kinesis' more
            "sub_sequence_number": self.position[1],
            "events": self.events,
            "redelivered": self.redelivered,
            "repeated": self.repeated,
            "out_of_order": self.out_of_order,
            "carriers": {carrier: dict(zip(FIGURES, sums, strict=True)) for carrier, sums in self.carriers.items()},
            "keys": zlib.compress(json.dumps(self.keys, separators=(",", ":")).encode()),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> ShardTotals:
        return cls(
            shard_id=row["shard_id"],
            version=int(row["version"]),
            position=(int(row["sequence_number"]), int(row["sub_sequence_number"])),
            events=int(row["events"]),
            redelivered=int(row["redelivered"]),
            repeated=int(row["repeated"]),
            out_of_order=int(row["out_of_order"]),
            carriers={carrier: [int(sums[name]) for name in FIGURES] for carrier, sums in row["carriers"].items()},
            keys=json.loads(zlib.decompress(bytes(row["keys"]))),
            began_at=float(row["began_at"]) if "began_at" in row else None,
            ended_at=float(row["ended_at"]) if "ended_at" in row else None,
        )


_stored: dict[str, ShardTotals] = {}
"""The rows that the table is known to have, by shard. It is only read between two batches of a lease that we hold."""


def lease_acquired(shard_id: str, _checkpoint: Checkpoint) -> None:
    """Forgets the shard, since another worker may have continued it since this process last had it."""
    _stored.pop(shard_id, None)


def lease_lost(shard_id: str) -> None:
    _stored.pop(shard_id, None)


def handle(batch: Batch) -> None:
    """Add the batch in one write. If anything fails, the batch comes again, and the row is read again."""
    totals = _stored.pop(batch.shard_id, None) or _load(batch.shard_id)
    totals.add(batch.records, time.time())
    _save(totals)
    _stored[batch.shard_id] = totals


def _load(shard_id: str) -> ShardTotals:
    row = _table().get_item(Key={"shard_id": shard_id}, ConsistentRead=True).get("Item")
    return ShardTotals.from_row(row) if row else ShardTotals(shard_id)


def _save(totals: ShardTotals) -> None:
    """Writes only if the row is still as we read it: a worker that lost its lease without noticing must not overwrite
    its successor's row.
    """
    totals.version += 1
    _table().put_item(
        Item=totals.row(),
        ConditionExpression="attribute_not_exists(version) OR version = :before",
        ExpressionAttributeValues={":before": totals.version - 1},
    )


@cache
def _table() -> Any:
    return boto3.resource("dynamodb").Table(os.environ["FLIGHTS_TABLE"])
