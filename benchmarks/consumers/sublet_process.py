"""sublet as `sublet run` starts it: one long-lived process, with the settings and the pace that it has by itself."""

from __future__ import annotations

import os

from sublet import Batch, Mode, Settings
from sublet.cli.main import run_consumer

from benchmarks.consumers.tally import Order, Tally

ORDER = Order.from_command_line()
TALLY = Tally(ORDER.expected)


def handle(batch: Batch) -> None:
    TALLY.add(len(batch.records))


if __name__ == "__main__":
    given = {
        "SUBLET_APPLICATION": ORDER.application,
        "SUBLET_STREAM": ORDER.stream,
        "SUBLET_HANDLER": "benchmarks.consumers.sublet_process:handle",
        "SUBLET_MODE": Mode.CONTINUOUS.value,
        "SUBLET_WORKER_ID": "benchmark",
    }
    raise SystemExit(run_consumer(Settings.from_environment({**os.environ, **given})))
