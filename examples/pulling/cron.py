"""A cron job: what has come since it ran last, at most a thousand records, and out.

*/5 * * * *  python cron.py
"""

from __future__ import annotations

from collections.abc import Callable

from sublet import Consumer


def run(consumer: Consumer, handle: Callable[[bytes], object]) -> int:
    """How many records were handled. What fails comes again the next time; what follows it in the shard may come again too."""
    handled = 0
    with consumer.fetch(1000, expires=20) as records:
        for record in records:
            handle(record.data)
            record.ack()
            handled += 1
    return handled


if __name__ == "__main__":
    print(run(Consumer("orders-cron", "orders"), print), "records")
