"""A handler of a Lambda fleet: it appends to one file for each shard, and fails once for each."""

from __future__ import annotations

import os
from pathlib import Path

from sublet import Batch


def handle(batch: Batch) -> None:
    folder = Path(os.environ["RECORDINGS"])
    failed = folder / f"{batch.shard_id}.failed"
    if not failed.exists():
        failed.touch()
        raise ValueError("the first call fails")
    with (folder / batch.shard_id).open("ab") as file:
        file.writelines(record.data + b"\n" for record in batch.records)
