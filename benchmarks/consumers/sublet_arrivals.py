"""sublet as `sublet run` starts it, in continuous mode: one long-lived process, at its default pace."""

from __future__ import annotations

from sublet import Batch
from sublet.operate.cli.main import main

from benchmarks.consumers.arrivals import Arrivals
from benchmarks.consumers.tally import Order

ORDER = Order.from_command_line()
ARRIVALS = Arrivals(ORDER.expected)


def handle(batch: Batch) -> None:
    ARRIVALS.add(record.data for record in batch.records)


if __name__ == "__main__":
    command = ["run", "--application", ORDER.application, "--stream", ORDER.stream]
    command += ["--handler", "benchmarks.consumers.sublet_arrivals:handle", "--worker-id", "benchmark"]
    raise SystemExit(main(command))
