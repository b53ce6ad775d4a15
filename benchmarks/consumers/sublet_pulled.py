"""Pulls from sublet, with `async for` on an event loop, or with `for` in plain Python if `PULLED=plain`, and
acknowledges each record. Pages are as large as Kinesis returns, as in the consumers that it is compared with.
`PULLED=quiet`: with `for` and default settings, over many quiet shards; reports how long each record took.
"""

from __future__ import annotations

import asyncio
import os

import sublet
from sublet.aio import Consumer

from benchmarks.consumers.tally import Arrivals, Order, Tally


async def on_a_loop(order: Order, tally: Tally) -> None:
    async with Consumer(order.application, order.stream, poll_bytes=None) as consumer:
        async for _ in consumer.messages(auto_ack=True):
            tally.add_one()


def plain(order: Order, tally: Tally) -> None:
    with sublet.Consumer(order.application, order.stream, poll_bytes=None) as consumer:
        for _ in consumer.messages(auto_ack=True):
            tally.add_one()


def quiet(order: Order, arrivals: Arrivals) -> None:
    with sublet.Consumer(order.application, order.stream) as consumer:
        for record in consumer.messages(auto_ack=True):
            arrivals.add([record.data])


if __name__ == "__main__":
    given = Order.from_command_line()
    match os.environ.get("PULLED"):
        case "plain":
            plain(given, Tally(given.expected))
        case "quiet":
            quiet(given, Arrivals(given.expected))
        case _:
            asyncio.run(on_a_loop(given, Tally(given.expected)))
