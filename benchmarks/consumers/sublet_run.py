"""sublet as `sublet run` starts it: one long-lived process in continuous mode, with default settings and pace.
`RETRIEVAL=FANOUT`: as `sublet run --register` does, which reads by push.
"""

from __future__ import annotations

import os

from sublet import Batch
from sublet.operate.cli.main import main

from benchmarks.consumers.tally import Order, told

ORDER = Order.from_command_line()
TELL = told(ORDER)


def handle(batch: Batch) -> None:
    TELL(batch.records)


if __name__ == "__main__":
    command = ["run", "--application", ORDER.application, "--stream", ORDER.stream]
    command += ["--handler", "benchmarks.consumers.sublet_run:handle"]
    command += ["--register", "benchmark"] if os.environ.get("RETRIEVAL") == "FANOUT" else []
    raise SystemExit(main(command))
