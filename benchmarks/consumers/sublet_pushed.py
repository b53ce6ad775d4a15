"""sublet as `sublet run --register` starts it: one long-lived process that reads by push, with default settings."""

from __future__ import annotations

from sublet import Batch
from sublet.operate.cli.main import main

from benchmarks.consumers.tally import Order, Tally

ORDER = Order.from_command_line()
TALLY = Tally(ORDER.expected, ORDER.uncounted)


def handle(batch: Batch) -> None:
    TALLY.add(len(batch.records))


if __name__ == "__main__":
    command = ["run", "--application", ORDER.application, "--stream", ORDER.stream, "--register", "benchmark"]
    command += ["--handler", "benchmarks.consumers.sublet_pushed:handle", "--worker-id", "benchmark"]
    raise SystemExit(main(command))
