"""Pulls from sublet over many quiet shards, and records how long each record took to the program. The last record ends
the process.
"""

from __future__ import annotations

import sublet

from benchmarks.consumers.arrivals import Arrivals
from benchmarks.consumers.tally import Order


def main(order: Order) -> None:
    arrivals = Arrivals(order.expected)
    with sublet.Consumer(order.application, order.stream) as consumer:
        for record in consumer.messages(auto_ack=True):
            arrivals.add([record.data])


if __name__ == "__main__":
    main(Order.from_command_line())
