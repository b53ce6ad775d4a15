"""Rewrites tests/data/kcl_rs_rows.json: one row of each kind, as kcl-rs wrote it. `python -m
tests.mixed_fleet.golden_rows`."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra.local.embedded import ROOT, EmbeddedAws, embedded_aws
from tests.e2e.deliveries import Recorder, wait_until
from tests.e2e.fleet import Fleet
from tests.mixed_fleet.workers import Employer

FILE = ROOT / "tests" / "data" / "kcl_rs_rows.json"
PATIENCE = 180.0
Row = Mapping[str, Any]

KINDS: Mapping[str, Callable[[Row], bool]] = {
    "created": lambda row: _checkpoint(row) == "TRIM_HORIZON" and "leaseOwner" not in row,
    "held": lambda row: "leaseOwner" in row and "throughputKBps" in row and _checkpoint(row).isdecimal(),
    "aggregated": lambda row: row["checkpointSubSequenceNumber"]["N"] not in ("0", "-1"),
    "pending": lambda row: "pendingCheckpoint" in row,
    "ended": lambda row: _checkpoint(row) == "SHARD_END" and "childShardIds" in row,
    "child_of_a_split": lambda row: len(row.get("parentShardId", {}).get("SS", ())) == 1,
    "child_of_a_merge": lambda row: len(row.get("parentShardId", {}).get("SS", ())) == 2,
}


def main() -> int:
    found: dict[str, Row] = {}
    with embedded_aws() as aws, tempfile.TemporaryDirectory() as folder:
        _a_life(aws, Path(folder), found)
        for kind, position in (("at_timestamp", f"AT_TIMESTAMP:{time.time():.3f}"), ("latest", "LATEST")):
            found[kind] = _first_row(aws, Path(folder), kind.replace("_", "-"), position)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(found, indent=2, sort_keys=True, default=_binary) + "\n")
    print(f"{FILE.relative_to(ROOT)}: {', '.join(sorted(found))}")
    return 0


def _a_life(aws: EmbeddedAws, folder: Path, found: dict[str, Row]) -> None:
    """Two shards, then a split and a merge of them; then pending checkpoints, by a worker that only prepares them."""
    fleet = _stream(aws, folder, "rows", shards=2)
    employer = Employer(aws, "rows", "rows", folder)
    worker = employer.kcl_rs("1")
    try:
        _collect(fleet, found, {"created", "held", "aggregated"})
        fleet.split()
        _collect(fleet, found, {"ended", "child_of_a_split"})
        fleet.merge()
        _collect(fleet, found, {"child_of_a_merge"})
    finally:
        worker.kill()
    worker = employer.kcl_rs("1", RECORDER_PREPARES="1")
    try:
        _collect(fleet, found, {"pending"})
    finally:
        worker.kill()


def _collect(fleet: Fleet, found: dict[str, Row], kinds: set[str]) -> None:
    """Look until a row of each of `kinds` has been seen, while records come."""

    def seen() -> bool:
        fleet.produce(["key-1", "key-2"], aggregated=True)
        rows = _rows(fleet)
        for kind in kinds - found.keys():
            if row := next(filter(KINDS[kind], rows), None):
                found[kind] = row
        return kinds <= found.keys()

    wait_until(seen, PATIENCE, lambda: f"{kinds - found.keys()} never came")


def _first_row(aws: EmbeddedAws, folder: Path, application: str, position: str) -> Row:
    fleet = _stream(aws, folder, application, shards=1)
    worker = Employer(aws, application, application, folder, position).kcl_rs("1")
    try:
        wait_until(lambda: bool(_rows(fleet)), PATIENCE, lambda: "kcl-rs created no lease")
        return _rows(fleet)[0]
    finally:
        worker.kill()


def _rows(fleet: Fleet) -> list[Row]:
    try:
        return list(fleet.leases().values())
    except fleet.dynamodb.exceptions.ResourceNotFoundException:
        return []  # kcl-rs has not created it yet


def _stream(aws: EmbeddedAws, folder: Path, name: str, shards: int) -> Fleet:
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=shards)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return Fleet(aws, name, {"LeaseTable": name}, Recorder(folder))


def _checkpoint(row: Row) -> str:
    return str(row["checkpoint"]["S"])


def _binary(value: object) -> str:
    """DynamoDB's own JSON has binary as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} is not of DynamoDB's JSON")


if __name__ == "__main__":
    sys.exit(main())
