"""The command line of the demo: `make demo`, or `python -m demo`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from rich.console import Console

from demo.arguments import FEWEST_EVENTS, event_count, interrupt
from demo.flights import ALL_FLIGHTS
from demo.run import DemoFailed, run
from demo.view import WIDTH
from infra.local import ServerFailed
from infra.local.deploy import DeploymentFailed

ABOUT = f"""\
Deploys the real stack (EventBridge rule, lease manager, Step Functions, lease workers) to an AWS on this machine's
loopback, and puts the {ALL_FLIGHTS:,} flights that left New York in 2013 on a stream of four shards: a tenth as plain
records, the rest aggregated as the KPL does it. One shard is split and two are merged while events flow. The handler,
examples/flights, keeps counts and delays per carrier in DynamoDB.

While it runs you see the shards with their owners, checkpoints and lag. At the end it compares what the handler stored
with the data set: missing events, events delivered more than once, and the order of each partition key.

The exit code is 0 if nothing is missing or out of order, 1 if something is or the demo could not finish, and 130 after
Ctrl-C. It leaves nothing running in any case. Without a terminal it prints a line every few seconds instead.
"""


def main() -> int:
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, interrupt)
    try:
        return run(arguments.events, arguments.svg, console)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing is left running.")
        return 130
    except (DemoFailed, DeploymentFailed, ServerFailed) as failure:
        console.print(f"\nThe demo could not finish: {failure}", markup=False, style="red")
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--events",
        type=event_count,
        default=os.environ.get("DEMO_EVENTS", str(ALL_FLIGHTS)),
        help=f"how many, from {FEWEST_EVENTS:,} to {ALL_FLIGHTS:,}; also by the variable DEMO_EVENTS (default: all)",
    )
    parser.add_argument("--svg", type=Path, metavar="PATH", help="write a picture of the view and of the proof to PATH")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
