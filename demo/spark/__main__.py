"""The command line of the demo with Spark: `make demo-spark`, or `python -m demo.spark`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from demo.arguments import event_count, interrupt
from demo.flights import ALL_FLIGHTS
from demo.run import DemoFailed
from demo.spark import java
from demo.spark.pipeline import PipelineFailed
from demo.spark.reader import SPARK_PYTHON
from demo.spark.run import run
from demo.view import WIDTH
from infra.local import ServerFailed
from infra.local.deploy import DeploymentFailed

EVENTS = 150_000
FEWEST_EVENTS = 10_000
"""About 3,000 events are on their way at once; with fewer in total, the runtimes' turns would be too
short."""

ABOUT = f"""\
Deploys the real stack to an AWS on this machine's loopback, and puts {EVENTS:,} of the flights that left New York in
2013 on a stream of four shards, as `make demo` does. The Lambda fleet handles the first part. Then it is stopped, and
`sublet pipeline --leases hold` takes its leases over: Spark reads on where the fleet was, while one shard is split and
two are merged, into Parquet tables and one of figures per carrier. It is ended, gives the leases back, and the fleet
handles the rest.

At the end what the handler has in DynamoDB and Spark has in Parquet is held against the data set: events by runtime,
events missing, events that both have handled, the figures of both together.

The exit code is 0 if nothing is missing, repeated or out of order, 1 if something is or the demo could not get that
far, 130 after Ctrl-C. Nothing is left running in any case.
"""


def main() -> int:
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if (problem := _problem(arguments.keep)) is not None:
        console.print(problem, style="red", markup=False, soft_wrap=True)
        return 1
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, interrupt)
    try:
        return run(arguments.events, arguments.keep, arguments.svg, console)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing is left running.")
        return 130
    except (DemoFailed, DeploymentFailed, PipelineFailed, ServerFailed) as failure:
        console.print(f"\nThe demo could not finish: {failure}", markup=False, style="red")
        return 1


def _problem(keep: Path | None) -> str | None:
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        return f"{keep} is no empty folder: the tables need one of their own."
    if not SPARK_PYTHON.exists():
        return "Spark is not installed: `make demo-spark` does it."
    return java.problem()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo.spark",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--events",
        type=partial(event_count, fewest=FEWEST_EVENTS),
        default=os.environ.get("DEMO_EVENTS", str(EVENTS)),
        help=f"how many, from {FEWEST_EVENTS:,} to {ALL_FLIGHTS:,}; DEMO_EVENTS says it too (default: {EVENTS:,})",
    )
    parser.add_argument(
        "--keep",
        type=lambda text: Path(text).resolve(),
        metavar="FOLDER",
        help="leave the Parquet tables in FOLDER",
    )
    parser.add_argument("--svg", type=Path, metavar="PATH", help="write a picture of the view and of the end to PATH")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
