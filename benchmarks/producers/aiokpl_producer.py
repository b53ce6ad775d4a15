"""aiokpl's Producer on a loop, and its SyncProducer, with their defaults except for the limits of a shard."""

from __future__ import annotations

import asyncio

from aiokpl import Config, Producer, SyncProducer

from benchmarks.producers.records import REGION, STREAM, Stopwatch, Task


def config(task: Task) -> Config:
    return Config(
        region=REGION,
        endpoint_url=task.url,
        rate_limit_records_per_sec_per_shard=1e6,
        rate_limit_bytes_per_sec_per_shard=1e9,
    )


def plain(task: Task) -> None:
    with SyncProducer(config(task)) as producer:
        key, data = task.records[0]
        producer.put_record(stream=STREAM, partition_key=key, data=data).wait()
        watch = Stopwatch()
        outcomes = [producer.put_record(stream=STREAM, partition_key=key, data=data) for key, data in task.records]
        producer.flush()
        watch.say(sum(bool(outcome.wait().success) for outcome in outcomes[-1:]) and len(outcomes))


async def on_loop(task: Task) -> None:
    async with Producer(config(task)) as producer:
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


if __name__ == "__main__":
    given = Task.from_command_line()
    asyncio.run(on_loop(given)) if given.on_loop else plain(given)
