"""Every write to a lease table, in order, from the table's own change stream, so that none is missed between two
scans.

The embedded AWS numbers changes by their millisecond, which `RowWritten.at` uses. Any of the workers may create the
table, so the stream is enabled right after that, and a scan then has the earlier rows.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sublet.protocol.lease import AttributeValue

from infra.local.deploy import AwsToDeployTo
from tests.mixed_fleet.table_watch import TableWatch

INTERVAL = 0.2
Row = Mapping[str, AttributeValue]


class RowWritten(NamedTuple):
    """A row as a write left it, None for a deleted one; `at` in nanoseconds since the epoch, never too late."""

    at: int
    key: str
    row: Row | None


@dataclass
class TableHistory:
    """Reads in a thread of its own from `start` to `stop`, and lets `watch` see the table after each write."""

    aws: AwsToDeployTo
    table: str
    watch: TableWatch
    writes: list[RowWritten] = field(default_factory=list)
    _rows: dict[str, Row] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _scanned_at: int = 0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def keep(self, file: Path) -> None:
        """For later analysis of a failed story."""
        file.write_text("".join(json.dumps(written, default=str) + "\n" for written in self.writes))

    def _run(self) -> None:
        dynamodb, streams = self.aws.client("dynamodb"), self.aws.client("dynamodbstreams")
        before = time.time_ns()
        while self.table not in dynamodb.list_tables()["TableNames"]:
            before = time.time_ns()
            if self._over.wait(INTERVAL):
                return
        iterator = _stream_of(dynamodb, streams, self.table)
        scanned = dynamodb.scan(TableName=self.table, ConsistentRead=True)["Items"]
        self._scanned_at = time.time_ns()
        for item in scanned:
            self._note(RowWritten(before, item["leaseKey"]["S"], item))
        over = False
        while not over:
            over = self._over.wait(INTERVAL)  # once more, when it is over
            reply = streams.get_records(ShardIterator=iterator)
            iterator = reply["NextShardIterator"]
            for change in reply["Records"]:
                self._note(_written(change["dynamodb"]))

    def _note(self, written: RowWritten) -> None:
        before = self._rows.get(written.key)
        is_older = before and written.row and _counter(written.row) < _counter(before)
        if is_older and written.at < self._scanned_at:
            return  # the scan has it already
        self.writes.append(written)
        if written.row is None:
            self._rows.pop(written.key, None)
        else:
            self._rows[written.key] = written.row
        self.watch.look([dict(row) for row in self._rows.values()])


def _stream_of(dynamodb: Any, streams: Any, table: str) -> str:
    """An iterator at the beginning of the table's changes, from now on."""
    specification = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    dynamodb.update_table(TableName=table, StreamSpecification=specification)
    arn = dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator: str = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return iterator


def _written(change: Mapping[str, Any]) -> RowWritten:
    milliseconds = int(change["SequenceNumber"][:20])
    return RowWritten(milliseconds * 1_000_000, change["Keys"]["leaseKey"]["S"], change.get("NewImage"))


def _counter(row: Row) -> int:
    return int(row.get("leaseCounter", {"N": "0"})["N"])
