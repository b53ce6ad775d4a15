"""Puts the records of several streams into one, each key of each stream in order: at least once.

    sublet run --application merged --streams 'orders-*' --handler merge:handle

`sublet.Producer` keeps a key's order through refusals, retries and reshards of the target. This returns when all
records of the batch are in the target, so a crash before that, or before the checkpoint, puts some again, in the same
order: 1 2 3 2 3. Each record carries where it came from, which is the same each time: consumers of the target keep the
last place of each origin and skip what is not beyond it, as ../postgres does. Records of one key in two streams have no
order between them.

The target is TARGET, and must not be among the streams.
"""

from __future__ import annotations

import json
import os
from functools import cache

from sublet import Batch, Producer, UserRecord


def handle(batch: Batch) -> None:
    """If Kinesis refuses a record for `patience`, its future raises, and the batch comes again."""
    puts = [producer().put(record.order_key, merged(batch, record)) for record in batch.records]
    for put in puts:
        put.result()


def merged(batch: Batch, record: UserRecord) -> bytes:
    """A shard's id says its stream: with `streams` it holds the stream's account, name and creation epoch."""
    origin = {
        "shard": batch.shard_id,
        "sequence_number": record.sequence_number,
        "sub_sequence_number": record.sub_sequence_number,
    }
    return json.dumps({"origin": origin, "data": json.loads(record.data)}).encode()


@cache
def producer() -> Producer:
    """One for the process: it packs the records of all batches. What has a future is awaited, so nothing is left in it
    when the process ends."""
    return Producer(os.environ["TARGET"])
