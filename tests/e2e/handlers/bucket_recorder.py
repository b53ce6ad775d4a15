"""The recorder for an AWS that runs its functions out of this machine's reach: the same, through a bucket.

`<pid>-<number>.jsonl` holds the records of one call, `delay` the seconds that each call takes, `fail-<n>` a failure
to come, and `kill` ends the first slow process that sees it. No call ends while there is a `hold`.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
from botocore.config import Config
from sublet import Batch

BUCKET = os.environ["RECORDER_BUCKET"]
s3: Any = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))


def handle(batch: Batch) -> None:
    for failure in ordered("fail-"):
        raise RuntimeError(f"asked to fail: {failure}")
    delay = float(s3.get_object(Bucket=BUCKET, Key="delay")["Body"].read())
    lines = [
        json.dumps(
            [
                time.time_ns(),
                batch.shard_id,
                record.sequence_number,
                record.sub_sequence_number,
                record.partition_key,
                record.data.decode(),
            ]
        )
        for record in batch.records
    ]
    name = f"{os.getpid()}-{uuid.uuid4().hex}.jsonl"
    s3.put_object(Bucket=BUCKET, Key=name, Body="".join(f"{line}\n" for line in lines).encode())
    dawdle(delay)


def dawdle(seconds: float) -> None:
    """May be killed meanwhile, if the test asks for it."""
    over = time.monotonic() + seconds
    while time.monotonic() < over or is_held():
        for _ in ordered("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)


def is_held() -> bool:
    return "Contents" in s3.list_objects_v2(Bucket=BUCKET, Prefix="hold")


def ordered(prefix: str) -> Iterator[str]:
    """The test's orders, each once."""
    for each in s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ()):
        s3.delete_object(Bucket=BUCKET, Key=each["Key"])
        yield each["Key"]


def shard_ended(shard_id: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"ended-{shard_id}", Body=b"")
