"""An event source mapping's handler, with Powertools, that fails for one record: the text in the file `poison`, while
it exists.

It records what it has done, as recorder.py does.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord

DIRECTORY = Path(os.environ["RECORDER_DIRECTORY"])
POISON = DIRECTORY / "poison"

processor = BatchProcessor(event_type=EventType.KinesisDataStreams)


def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(event=event, record_handler=one, processor=processor, context=context)


def one(record: KinesisStreamRecord) -> None:
    text = record.kinesis.data_as_text()
    if POISON.exists() and POISON.read_text() == text:
        raise ValueError(f"cannot read {text}")
    shard_id, number = record.event_id.split(":")
    line = [time.time_ns(), shard_id, number, 0, record.kinesis.partition_key, text]
    with (DIRECTORY / f"{os.getpid()}.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")
