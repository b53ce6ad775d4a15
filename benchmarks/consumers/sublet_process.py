"""sublet as `sublet run` starts it: one long-lived process, with default settings and pace."""

from __future__ import annotations

from sublet import Batch
from sublet.operate.cli.main import main

from benchmarks.consumers.tally import Order, Tally

ORDER = Order.from_command_line()
TALLY = Tally(ORDER.expected)


def handle(batch: Batch) -> None:
    TALLY.add(len(batch.records))


if __name__ == "__main__":
    command = ["run", "--application", ORDER.application, "--stream", ORDER.stream]
    command += ["--handler", "benchmarks.consumers.sublet_process:handle", "--worker-id", "benchmark"]
    raise SystemExit(main(command))
