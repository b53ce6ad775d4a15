"""Pulls from sublet, with `async for` on an event loop, or with `for` in plain Python if `PULLED=plain`, and
acknowledges each record.

Pages are as large as Kinesis returns, as in the consumers that it is compared with.
"""

from __future__ import annotations

import asyncio
import os

import sublet
from sublet.aio import Consumer

from benchmarks.consumers.tally import Order, Tally


async def on_a_loop(order: Order, tally: Tally) -> None:
    async with Consumer(order.application, order.stream, poll_bytes=None) as consumer:
        async for _ in consumer.messages(auto_ack=True):
            tally.add_one()


def plain(order: Order, tally: Tally) -> None:
    with sublet.Consumer(order.application, order.stream, poll_bytes=None) as consumer:
        for _ in consumer.messages(auto_ack=True):
            tally.add_one()


if __name__ == "__main__":
    given = Order.from_command_line()
    if os.environ.get("PULLED") == "plain":
        plain(given, Tally(given.expected))
    else:
        asyncio.run(on_a_loop(given, Tally(given.expected)))
