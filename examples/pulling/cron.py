"""A cron job: handles the records that arrived since its last run, a thousand at most, and ends.

*/5 * * * *  python cron.py
"""

from __future__ import annotations

from collections.abc import Callable

from sublet import Consumer


def run(consumer: Consumer, handle: Callable[[bytes], object]) -> int:
    """Returns how many records were handled. Failed records come again the next time; those after them in the shard
    may come again too."""
    handled = 0
    with consumer.fetch(1000, expires=20) as records:
        for record in records:
            handle(record.data)
            record.ack()
            handled += 1
    return handled


if __name__ == "__main__":
    print(run(Consumer("orders-cron", "orders"), print), "records")
