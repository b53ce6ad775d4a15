"""The keeper as a process, and a reader that dies without a word: here its end of the pipe is closed, as by SIGKILL."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.errors import LeaseKeeperGone, LeaseTableNotFound, SettingsError
from sublet.protocol.lease import Lease
from sublet.protocol.stream_identity import StreamIdentity
from sublet.spark.keeper.keeper_link import KeeperLink
from sublet.spark.keeper.query_life import query_connection, wait_for_end
from sublet.spark.options import Use, parse_options
from sublet.spark.plan.offsets import Offset, ReadTo, ShardOffset

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table
from tests.spark.memory_query import ARN

SHARD = "shardId-000000000000"
CREATED = datetime(2026, 1, 31, 8, tzinfo=UTC)


class Reader:
    """A stream of one record, its application's table, and the source's reader with its keeper."""

    def __init__(self, aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch, name: str, **given: str) -> None:
        for variable, value in aws.environment.items():
            monkeypatch.setenv(variable, value)
        self.name = f"{name}-{os.getpid()}"
        kinesis = aws.client("kinesis")
        kinesis.create_stream(StreamName=self.name, ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})
        self.record = kinesis.put_record(StreamName=self.name, Data=b"x", PartitionKey="k")["SequenceNumber"]
        self.table = DynamoDbLeaseTable(aws.client("dynamodb"), self.name)
        texts = {
            "stream": self.name,
            "application": self.name,
            "leases": "hold",
            "failoverTime": "3s",
            **given,
        }
        self.sparks_side, ours = socket.socketpair()
        self.link = KeeperLink(parse_options(texts, Use.STREAM), ours)

    def offset(self, *, read: bool) -> Offset:
        shards = {SHARD: ShardOffset(ReadTo(self.record))} if read else {}
        return Offset(self.name, StreamIdentity(ARN, CREATED), shards, self.name)

    def die(self) -> None:
        assert self.link._process.stdin is not None
        with suppress(BrokenPipeError):
            self.link._process.stdin.close()

    def row(self) -> Lease:
        row = self.table.get(SHARD)
        assert isinstance(row, Lease)
        return row

    def close(self) -> None:
        self.die()
        self.sparks_side.close()
        self.link._process.wait(timeout=20)
        assert self.link._process.stdout is not None
        self.link._process.stdout.close()


def soon(happens: Callable[[], bool], within: float = 10) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if happens():
            return True
        time.sleep(0.05)
    return False


def test_it_outlives_its_reader_until_the_query_is_over(
    embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader = Reader(embedded_aws, monkeypatch, "outlives", checkpointLocation=str(tmp_path))
    create_table(embedded_aws.client("dynamodb"), reader.name, "leaseKey")
    assert reader.link.held(reader.offset(read=False)).keys() == {SHARD}
    assert reader.link.rows([SHARD, "shardId-000000000009"]).keys() == {SHARD}
    reader.link.planned(reader.offset(read=True))
    reader.die()
    counter = reader.row().lease_counter
    assert soon(lambda: reader.row().lease_counter > counter), "it heartbeats"
    assert reader.row().lease_owner == f"{reader.name}-spark"
    reader.sparks_side.settimeout(5)
    assert reader.sparks_side.recv(1) == b"", "Spark sees the reader's end"
    reader.sparks_side.sendall(b"the next batch?")
    assert soon(lambda: reader.row().lease_owner is None)
    assert reader.row().checkpoint.sentinel is not None, "no commit of the batch is in the folder"
    reader.close()


def test_what_it_refuses_is_raised_by_its_name(
    embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader = Reader(embedded_aws, monkeypatch, "refuses", checkpointLocation=str(tmp_path))
    time.sleep(3)  # what it does before it is asked fails too, and says nothing
    with pytest.raises(LeaseTableNotFound, match=reader.name):
        reader.link.held(reader.offset(read=False))
    with pytest.raises(SettingsError, match="checkpointLocation"):
        reader.link.held(reader.offset(read=True))
    os.kill(reader.link._process.pid, signal.SIGKILL)
    with pytest.raises(LeaseKeeperGone, match="exit code -9"):
        reader.link.held(reader.offset(read=False))
    reader.close()


def test_a_connection_is_found_and_its_end_is_seen() -> None:
    """In this process: what is found is the first connected socket; a listening one is none."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = query_connection()
        assert found is None or found.getpeername() != listening.getsockname()
        if found is not None:
            found.close()
    ours, theirs = socket.socketpair()
    theirs.close()
    wait_for_end(ours)  # returns at once
    assert ours.fileno() == -1
