"""kcl-rs as in `kcl_rust`, reporting how long each record took."""

from __future__ import annotations

from benchmarks.consumers.arrivals import Arrivals
from benchmarks.consumers.kcl_rust import run
from benchmarks.consumers.tally import Order

if __name__ == "__main__":
    order = Order.from_command_line()
    arrivals = Arrivals(order.expected)
    run(order, lambda records: arrivals.add(record.data for record in records))
