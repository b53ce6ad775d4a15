"""How the code of 0.1 and 0.2 reads rows of this version, by running the original code in a separate process.

`python -m tests.rolling.rows` rewrites tests/data/sublet_rows_by_older.json, for repositories without the history.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sublet.protocol.checkpoint import LATEST, Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.lease import AttemptedRecords, Lease, Position, QuietUntil
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import HashKeyRange

from infra.local.embedded import ROOT
from tests.rolling.version import COMMITS, source_of

RECORDED = ROOT / "tests" / "data" / "sublet_rows_by_older.json"
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
HERE, THERE = Checkpoint("4" * 56, 1), Checkpoint("4" * 55 + "9", 0)

HELD = Lease(
    "shardId-000000000002",
    HERE,
    lease_counter=41,
    lease_owner="app-lambda-1",
    parent_shard_ids=frozenset({"shardId-000000000000"}),
    hash_key_range=HashKeyRange(0, 2**127),
    caught_up_at=NOON,
    quiet=QuietUntil(NOON, Position(HERE)),
    holder="item/window",
    holder_counter=41,
    crashes=3,
    attempts=2,
    tried=AttemptedRecords(THERE, 4),
    noted_ahead=FinishedAhead((THERE, None)),
    noted_ahead_counter=41,
)

OLDER = """
import json, sys
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol import lease_writes as writes
given = json.load(sys.stdin)
to = Checkpoint(*given["to"])
answers = {}
def plain(row):
    return {name: {k: sorted(v) if k == "SS" else v for k, v in value.items()} for name, value in sorted(row.items())}
for name, row in given["rows"].items():
    lease = decode_row(row)
    fence = getattr(lease, "fence", lease)
    late = writes.late_checkpoint
    made = {
        "acquire": lambda: writes.acquire(fence, "older-1", "older/1"),
        "heartbeat": lambda: writes.heartbeat(lease),
        "checkpoint": lambda: writes.checkpoint(lease, to),
        "late_checkpoint": lambda: late(lease if "lease" in late.__code__.co_varnames[:1] else lease.lease_key, to),
        "release": lambda: writes.release(lease),
    }
    after = {kind: writes.apply_to(make(), row) for kind, make in made.items()}
    answers[name] = {
        "reads": {
            "checkpoint": str(lease.checkpoint), "owner": lease.lease_owner, "counter": lease.lease_counter,
            "holder": lease.holder,
            "crashes": getattr(lease, "crashes", 0), "attempts": getattr(lease, "attempts", 0), "unknown":
            sorted(lease.other),
        },
        "loses_nothing": plain(encode_row(lease)) == plain(row),
        "writes": {kind: plain(row) for kind, row in after.items() if row is not None},
    }
print(json.dumps(answers, sort_keys=True))
"""


def rows() -> dict[str, dict[str, Any]]:
    """Our rows, with all our attributes."""
    return {
        "held": _plain(HELD),
        "released": _plain(replace(HELD, lease_owner=None, holder=None, holder_counter=None)),
        "pinned": _plain(
            Lease(
                "shardId-000000000003",
                LATEST,
                7,
                "app-lambda-1",
                start_at=NOON,
                holder="item/window",
                holder_counter=7,
            )
        ),
    }


def _plain(lease: Lease) -> dict[str, Any]:
    return {name: dict(value) for name, value in encode_row(lease).items()}


def answers_of(version: str) -> Mapping[str, Any]:
    """By the code of its commit. Raises NoSuchVersion."""
    with tempfile.TemporaryDirectory(prefix="sublet-older-") as folder:
        source = source_of(COMMITS[version], Path(folder), "layers/sublet/python/sublet")
        given = {"rows": rows(), "to": [THERE.sequence_number, THERE.sub_sequence_number]}
        done = subprocess.run(
            [sys.executable, "-c", OLDER],
            env={
                "PYTHONPATH": str(source / "layers" / "sublet" / "python"),
                "PATH": os.environ.get("PATH", ""),
            },
            input=json.dumps(given),
            capture_output=True,
            text=True,
            check=True,
        )
    answers: Mapping[str, Any] = json.loads(done.stdout)
    return answers


if __name__ == "__main__":
    RECORDED.write_text(
        json.dumps({version: answers_of(version) for version in COMMITS}, indent=1, sort_keys=True) + "\n"
    )
