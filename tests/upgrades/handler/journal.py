"""A handler that notes every record in the file `journal` of its folder, and fails on some, as files there say.

`stuck`: fails on the record that begins with `stuck`, before it is noted. `bad`: fails on records that begin with
`bad`. A line is: the version that handled it, the shard, the attempt, whether it is a redrive, the record.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from sublet import Batch

FOLDER = Path(os.environ["UPGRADES_FOLDER"])
VERSION = os.environ["UPGRADES_VERSION"]


def handle(batch: Batch) -> None:
    for record in batch.records:
        text = record.data.decode()
        note([VERSION, batch.shard_id, batch.attempt, batch.is_redrive, text])
        for kind in ("stuck", "bad"):
            if text.startswith(kind) and (FOLDER / kind).exists():
                note([VERSION, batch.shard_id, batch.attempt, batch.is_redrive, f"failed {text}"])
                raise ValueError(kind)


def note(line: list[object]) -> None:
    """In one system call, so that lines of parallel threads stay whole."""
    with (FOLDER / "journal").open("ab", buffering=0) as journal:
        journal.write(json.dumps(line).encode() + b"\n")
