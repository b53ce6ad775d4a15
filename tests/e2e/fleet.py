"""The deployed stack from outside: a stream to put to, a lease manager to prompt, a lease table to read."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sublet.protocol.aggregation import aggregate

from infra.local.deploy import AwsToDeployTo, deploy, destroy
from infra.local.embedded import EmbeddedAws
from tests.e2e.deliveries import Bucket, Recorder, wait_until

HANDLERS = Path(__file__).parent / "handlers"
SHARDS = 2
PUT_ATTEMPTS = 20
RESHARD_LIMIT = 120
"""Seconds. AWS takes half a minute or more; the emulators are immediate."""


@dataclass
class Fleet:
    """One application on one stream. Texts are `<key>/<running number of the key>`, so that order can be judged."""

    aws: AwsToDeployTo
    stream: str
    outputs: dict[str, str]
    recorder: Recorder
    put: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self.kinesis: Any = self.aws.client("kinesis")
        self.dynamodb: Any = self.aws.client("dynamodb")
        self.lambda_: Any = self.aws.client("lambda")

    def produce(self, keys: Iterable[str], aggregated: bool = False) -> list[str]:
        """One event for each key, plain, or as a KPL aggregate of three events of that key in a stream record of its
        own."""
        records, texts = [], []
        for key in keys:
            mine = [f"{key}/{self.numbers[key] + n}" for n in range(3 if aggregated else 1)]
            self.numbers[key] += len(mine)
            data = aggregate([(key, None, text.encode()) for text in mine]) if aggregated else mine[0].encode()
            records.append({"Data": data, "PartitionKey": key})
            texts += mine
        for start in range(0, len(records), 400):
            self._put(records[start : start + 400])
        self.put += texts
        return texts

    def _put(self, records: list[dict[str, Any]]) -> None:
        """Repeats until the stream has all of them: it refuses single ones of a shard at its limit. No key occurs
        twice, so that each key's order is kept."""
        for attempt in range(PUT_ATTEMPTS):
            reply = self.kinesis.put_records(StreamName=self.stream, Records=records)
            answers = zip(records, reply["Records"], strict=True)
            records = [record for record, answer in answers if "ErrorCode" in answer]
            if not records:
                return
            time.sleep(0.2 * (attempt + 1))
        raise AssertionError(f"{len(records)} records were refused {PUT_ATTEMPTS} times: {reply}")

    def tick(self) -> dict[str, Any]:
        """Prompt the lease manager and wait for the reports of its ticks."""
        reply = self.lambda_.invoke(
            FunctionName=self.outputs["LeaseManager"],
            Payload=json.dumps({"prompt": {"because": "test"}}).encode(),
        )
        said: dict[str, Any] = json.loads(reply["Payload"].read())
        assert "FunctionError" not in reply, said
        return said

    def open_shards(self) -> list[dict[str, Any]]:
        shards = self.kinesis.list_shards(StreamName=self.stream)["Shards"]
        found = [s for s in shards if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        return sorted(found, key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))

    def split(self, which: int = 0) -> None:
        """One of the open shards, in the middle."""
        shard = self.open_shards()[which]
        low, high = (int(shard["HashKeyRange"][end]) for end in ("StartingHashKey", "EndingHashKey"))
        self._reshard("split_shard", ShardToSplit=shard["ShardId"], NewStartingHashKey=str((low + high) // 2 + 1))

    def merge(self, which: int = 0) -> None:
        """One of the open shards and the next one."""
        first, second = (shard["ShardId"] for shard in self.open_shards()[which : which + 2])
        self._reshard("merge_shards", ShardToMerge=first, AdjacentShardToMerge=second)

    def _reshard(self, operation: str, **arguments: str) -> None:
        before = {shard["ShardId"] for shard in self.open_shards()}
        getattr(self.kinesis, operation)(StreamName=self.stream, **arguments)
        wait_until(
            lambda: {shard["ShardId"] for shard in self.open_shards()} != before,
            RESHARD_LIMIT,
            lambda: f"{operation} did nothing",
        )
        self.kinesis.get_waiter("stream_exists").wait(
            StreamName=self.stream, WaiterConfig={"Delay": 1, "MaxAttempts": RESHARD_LIMIT}
        )

    def leases(self) -> dict[str, dict[str, Any]]:
        return {row["leaseKey"]["S"]: row for row in self.dynamodb.scan(TableName=self.outputs["LeaseTable"])["Items"]}

    def wait_until_free(self) -> dict[str, dict[str, Any]]:
        """The leases, once every window has ended and released its own. (The next tick may be about to start new
        ones.)"""
        rows: dict[str, dict[str, Any]] = {}

        def free() -> bool:
            nonlocal rows
            rows = self.leases()
            return not any("leaseOwner" in row for row in rows.values())

        wait_until(free, 60, lambda: f"still held: {rows}")
        return rows


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@contextmanager
def deployed(
    aws: EmbeddedAws, application: str, where: Path | Bucket, shards: int = SHARDS, /, **settings: str
) -> Iterator[Fleet]:
    """A new stream with the real stack, and the recorder as its handler; removed again from a permanent AWS."""
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=application, ShardCount=shards)
    kinesis.get_waiter("stream_exists").wait(StreamName=application, WaiterConfig={"Delay": 1})
    arn = kinesis.describe_stream_summary(StreamName=application)["StreamDescriptionSummary"]["StreamARN"]
    handler, variables = (
        ("recorder", {"RECORDER_DIRECTORY": str(where)})
        if isinstance(where, Path)
        else ("bucket_recorder", {"RECORDER_BUCKET": where.name})
    )
    context = {
        "application": application,
        "stream_arn": arn,
        "handler_code": str(HANDLERS),
        "handler": f"{handler}:handle",
        "handler_environment": json.dumps(variables),
        **settings,
    }
    recorder = Recorder(where)
    fleet = Fleet(aws, application, deploy(aws, context), recorder)
    try:
        yield fleet
    finally:
        if not aws.servers:
            destroy(aws, context)
            kinesis.delete_stream(StreamName=application, EnforceConsumerDeletion=True)
            with suppress(fleet.dynamodb.exceptions.ResourceNotFoundException):  # LocalStack ignores its Retain
                fleet.dynamodb.delete_table(TableName=fleet.outputs["LeaseTable"])
