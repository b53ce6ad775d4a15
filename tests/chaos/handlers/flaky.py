"""A handler that records every call and fails at random: by a hash of the random seed, its first record and the
attempt.

It fails in three ways: before the first record, in the middle, and in the middle after `batch.checkpoint` of the
finished records. Each process has a journal of its own in one folder, `<pid>-<start>.jsonl`, which
tests/chaos/journal.py reads. A record is in the journal before sublet learns that it is done: a process killed in
between can only make a record come again.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from random import Random

from sublet import Batch

FOLDER = Path(os.environ["CHAOS_FOLDER"])
SEED = os.environ["CHAOS_SEED"]
JOURNAL = FOLDER / f"{os.getpid()}-{time.time_ns()}.jsonl"
FAILURE_RATE = FOLDER / "failure-rate"
"""Of the calls, from 0 to 1; changed while functions run."""

attempts: Counter[str] = Counter()


class Unlucky(Exception):
    """The failure that was due."""


def handle(batch: Batch) -> None:
    place = f"{batch.shard_id} {batch.records[0].checkpoint}"
    attempts[place] += 1
    chance = Random(f"{SEED} {place} {attempts[place]}")
    if chance.random() >= float(FAILURE_RATE.read_text()):
        write_call(batch, len(batch.records), done=len(batch.records))
        return
    seen = chance.randrange(len(batch.records) + 1)
    if chance.random() < 0.5:
        write_call(batch, seen, done=0, failed=True)
    else:
        write_call(batch, seen, done=seen, failed=True)
        if seen:
            batch.checkpoint(batch.records[seen - 1])
    raise Unlucky(f"{seen} of {len(batch.records)} records")


def lease_acquired(shard_id: str, checkpoint: object) -> None:
    write("acquired", shard_id, str(checkpoint))


def shard_ended(shard_id: str) -> None:
    write("ended", shard_id)


def write_call(batch: Batch, seen: int, *, done: int, failed: bool = False) -> None:
    records = [
        [record.sequence_number, record.sub_sequence_number, record.data.decode()] for record in batch.records[:seen]
    ]
    write("call", batch.shard_id, done, records, failed)


def write(what: str, *fields: object) -> None:
    """In one system call, so that lines of parallel threads stay whole."""
    with JOURNAL.open("ab", buffering=0) as lines:
        lines.write(json.dumps([what, time.time_ns(), *fields]).encode() + b"\n")
