"""What `benchmarks.producing` measures: `python -m benchmarks.producers URL RECORDS SIZE PRODUCER`, in the environment
that has the producer.

Prints the CPU seconds from its first put to its last record in the stream, and how many of its records are known to
be there.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

KEYS = 1_000
STREAM = "orders"
REGION = "us-east-1"
AT_ONCE = 500


class Task(NamedTuple):
    url: str
    records: list[tuple[str, bytes]]
    producer: str

    @classmethod
    def from_command_line(cls, arguments: Sequence[str] = sys.argv) -> Task:
        _, url, count, size, producer = arguments
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
        os.environ.update(keys, AWS_ENDPOINT_URL=url, AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true")
        records = [(f"customer-{n % KEYS}", b"%d:" % n + bytes(int(size) - 8)) for n in range(int(count))]
        return cls(url, records, producer)


class Stopwatch:
    """CPU time of this process, and the time that passes."""

    def __init__(self) -> None:
        self._cpu, self._began = time.process_time(), time.monotonic()

    def say(self, stored: int) -> None:
        cpu, seconds = time.process_time() - self._cpu, time.monotonic() - self._began
        print(json.dumps({"cpu_seconds": cpu, "seconds": seconds, "stored": stored}), flush=True)


def sublet_plain(task: Task) -> None:
    import sublet  # noqa: PLC0415 -- not in the peers' environment

    with sublet.Producer(STREAM, rate_limit=None) as warm:
        warm.put(*task.records[0])
    producer = sublet.Producer(STREAM, rate_limit=None)
    watch = Stopwatch()
    with producer:
        futures = [producer.put(key, data) for key, data in task.records]
    watch.say(sum(future.exception() is None for future in futures))


async def sublet_on_loop(task: Task) -> None:
    from sublet.aio import Producer  # noqa: PLC0415 -- not in the peers' environment

    async with Producer(STREAM, rate_limit=None) as warm:
        await (await warm.put(*task.records[0]))
    watch = Stopwatch()
    async with Producer(STREAM, rate_limit=None) as producer:
        futures = [await producer.put(key, data) for key, data in task.records]
    watch.say(sum(future.exception() is None for future in futures))


def _aiokpl_config(task: Task) -> Any:
    from aiokpl import Config  # noqa: PLC0415 -- in the peers' environment alone

    return Config(
        region=REGION,
        endpoint_url=task.url,
        rate_limit_records_per_sec_per_shard=1e6,
        rate_limit_bytes_per_sec_per_shard=1e9,
    )


def aiokpl_plain(task: Task) -> None:
    from aiokpl import SyncProducer  # noqa: PLC0415 -- in the peers' environment alone

    with SyncProducer(_aiokpl_config(task)) as producer:
        key, data = task.records[0]
        producer.put_record(stream=STREAM, partition_key=key, data=data).wait()
        watch = Stopwatch()
        outcomes = [producer.put_record(stream=STREAM, partition_key=key, data=data) for key, data in task.records]
        producer.flush()
        watch.say(sum(bool(outcome.wait().success) for outcome in outcomes[-1:]) and len(outcomes))


async def aiokpl_on_loop(task: Task) -> None:
    from aiokpl import Producer  # noqa: PLC0415 -- in the peers' environment alone

    async with Producer(_aiokpl_config(task)) as producer:
        key, data = task.records[0]
        await (await producer.put_record(stream=STREAM, partition_key=key, data=data)).wait()
        watch = Stopwatch()
        outcomes = [
            await producer.put_record(stream=STREAM, partition_key=key, data=data) for key, data in task.records
        ]
        await producer.flush()
        stored = 0
        for outcome in outcomes:
            stored += bool((await outcome.wait()).success)
        watch.say(stored)


def boto3_plain(task: Task) -> None:
    import boto3  # noqa: PLC0415 -- would count for the others

    client: Any = boto3.client("kinesis")
    entries = [{"Data": data, "PartitionKey": key} for key, data in task.records]
    client.put_records(StreamName=STREAM, Records=entries[:1])
    watch = Stopwatch()
    stored = 0
    for start in range(0, len(entries), AT_ONCE):
        reply = client.put_records(StreamName=STREAM, Records=entries[start : start + AT_ONCE])
        stored += len(reply["Records"]) - reply["FailedRecordCount"]
    watch.say(stored)


PRODUCERS: dict[str, Callable[[Task], object]] = {
    "sublet_plain": sublet_plain,
    "sublet_on_loop": lambda task: asyncio.run(sublet_on_loop(task)),
    "aiokpl_plain": aiokpl_plain,
    "aiokpl_on_loop": lambda task: asyncio.run(aiokpl_on_loop(task)),
    "boto3_plain": boto3_plain,
}

if __name__ == "__main__":
    given = Task.from_command_line()
    PRODUCERS[given.producer](given)
