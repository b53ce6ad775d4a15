"""The recorder handler for functions out of the test's reach: it communicates with the test through a DynamoDB table.

`<pid>-<number>.jsonl` holds the records of one call, `delay` the seconds that each call takes, `kill` ends the first
slow process that sees it, and a batch with a record that begins with the text of `refuse` fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
import uuid
from typing import Any

import boto3
from sublet import Batch

LEDGER = os.environ["LEDGER"]
LINES_AT_ONCE = 1_000
"""About 150 KB: an item may have 400."""
LONGEST_TEXT = 1_000

table: Any = boto3.resource("dynamodb").Table(LEDGER)


def handle(batch: Batch) -> None:
    delay, refused = float(_text("delay") or 0), _text("refuse")
    if refused and any(record.data.decode().startswith(refused) for record in batch.records):
        raise ValueError("a record that the test refuses")
    lines = [
        json.dumps(
            [
                time.time_ns(),
                batch.shard_id,
                record.sequence_number,
                record.sub_sequence_number,
                record.partition_key,
                shortened(record.data.decode()),
            ]
        )
        for record in batch.records
    ]
    for start in range(0, len(lines), LINES_AT_ONCE):
        text = "".join(f"{line}\n" for line in lines[start : start + LINES_AT_ONCE])
        table.put_item(Item={"name": f"{os.getpid()}-{uuid.uuid4().hex}.jsonl", "text": text})
    _dawdle(delay)


def shortened(text: str) -> str:
    """Returns a text that is too long for the table as its digest, in the form of the others: `<key>/<number>`."""
    return text if len(text) <= LONGEST_TEXT else f"{hashlib.sha256(text.encode()).hexdigest()}/0"


def shard_ended(shard_id: str) -> None:
    table.put_item(Item={"name": f"ended-{shard_id}", "text": ""})


def _dawdle(seconds: float) -> None:
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        if _text("kill") is not None:
            table.delete_item(Key={"name": "kill"})
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)


def _text(name: str) -> str | None:
    found = table.get_item(Key={"name": name}, ConsistentRead=True).get("Item")
    return None if found is None else found["text"]
