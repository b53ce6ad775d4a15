"""`make chaos`: the deployed stack under every fault that we can think of, for a quarter of an hour; then the
verdict.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from random import SystemRandom
from types import FrameType

from rich.console import Console
from sublet.settings import Reading

from demo.view import WIDTH
from infra.local import ServerFailed
from infra.local.deploy import DeploymentFailed
from tests.chaos.produced import produce_under_faults
from tests.chaos.report import draw_report, problems
from tests.chaos.run import ChaosFailed, run
from tests.chaos.screen import shown

ABOUT = """\
Deploys the real stack to an AWS on this machine's loopback and keeps records coming, plain and KPL-aggregated, while it
kills lease workers and the lease manager, suspends workers past the failover time and lets them go on, loses, delays,
throttles and truncates what crosses the network, splits and merges shards, and has the handler fail. All of it follows
from one seed, though what a fault meets does not: processes and network are real.

Exit code 0 if nothing was missing, nothing out of order and nothing too late; 1 if something was, and then the journals
of every handler call stay in the folder that is named; 130 after Ctrl-C. Nothing is left running in any case.
"""


def main() -> int:
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    signal.signal(signal.SIGTERM, _interrupt)
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="sublet-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    console.print(f"seed {arguments.seed}, {arguments.minutes:g} minutes", highlight=False)
    if arguments.produce:
        return _produce(arguments.seed, arguments.minutes * 60, console)
    try:
        with shown(console) as show:
            found = run(arguments.seed, arguments.minutes * 60, folder, show, reading=arguments.reading)
    except KeyboardInterrupt:
        _clean(folder, arguments.keep)
        console.print("\nStopped; nothing is left running.")
        return 130
    except (ChaosFailed, DeploymentFailed, ServerFailed) as failure:
        console.print(f"The run did not get to its end: {failure}", markup=False, style="red")
        return 1
    console.print(draw_report(found), highlight=False)
    if arguments.report is not None:
        with arguments.report.open("w", encoding="utf-8") as file:
            Console(file=file, width=WIDTH).print(draw_report(found))
    if problems(found):
        console.print(f"The journals are in {folder}")
        return 1
    _clean(folder, arguments.keep)
    return 0


def _produce(seed: int, seconds: float, console: Console) -> int:
    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    try:
        found = produce_under_faults(seed, seconds, say)
    except KeyboardInterrupt:
        say("Stopped; nothing is left running.")
        return 130
    except ServerFailed as failure:
        say(f"The run did not get to its end: {failure}")
        return 1
    for line in found.lines():
        say(line)
    return int(bool(found.wrong))


def _clean(folder: Path, keep: Path | None) -> None:
    if keep is None:
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="default: by chance; printed")
    parser.add_argument("--minutes", type=float, default=15.0, help="of faults (default: 15)")
    parser.add_argument(
        "--reading",
        type=Reading,
        choices=list(Reading),
        default=Reading.POLLING,
        help="how workers read; with fan_out, subscriptions are cut and held up too (default: polling)",
    )
    parser.add_argument(
        "--produce",
        action="store_true",
        help="instead: producers at load, under refusals, a bad network and reshards, without a consumer",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there too")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the journals of every handler call there")
    return parser.parse_args()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
