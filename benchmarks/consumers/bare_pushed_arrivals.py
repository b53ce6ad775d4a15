"""The bare loop of `bare_pushed`, reporting how long each record took."""

from __future__ import annotations

from benchmarks.consumers.arrivals import Arrivals
from benchmarks.consumers.bare_pushed import run
from benchmarks.consumers.tally import Order

if __name__ == "__main__":
    order = Order.from_command_line()
    run(order, Arrivals(order.expected).add)
