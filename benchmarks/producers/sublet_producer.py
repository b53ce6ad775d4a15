"""sublet.Producer, and sublet.aio.Producer on a loop."""

from __future__ import annotations

import asyncio

import sublet
import sublet.aio

from benchmarks.producers.records import STREAM, Stopwatch, Task


def plain(task: Task) -> None:
    with sublet.Producer(STREAM, rate_limit=None) as warm:
        warm.put(*task.records[0])
    producer = sublet.Producer(STREAM, rate_limit=None)
    watch = Stopwatch()
    with producer:
        futures = [producer.put(key, data) for key, data in task.records]
    watch.say(sum(future.exception() is None for future in futures))


async def on_loop(task: Task) -> None:
    async with sublet.aio.Producer(STREAM, rate_limit=None) as warm:
        await (await warm.put(*task.records[0]))
    watch = Stopwatch()
    async with sublet.aio.Producer(STREAM, rate_limit=None) as producer:
        futures = [await producer.put(key, data) for key, data in task.records]
    watch.say(sum(future.exception() is None for future in futures))


if __name__ == "__main__":
    given = Task.from_command_line()
    asyncio.run(on_loop(given)) if given.on_loop else plain(given)
