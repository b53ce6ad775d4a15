"""`make interop`, `make interop-long`: Java's own KCL, 2.x and 3.x, and the KPL, together with sublet on one lease
table, and AWS' matcher of event patterns beside ours.

`python -m tests.interop [STORY...]`, or `--long` for the long stories; by default the short ones. Everything is real
except AWS, which is embedded (infra/local): on loopback, with random keys of its own. Exits with 1 if a story's
verdict is not clean (tests/mixed_fleet/verdict.py), or if something is repeated although a graceful stop came before.

Most of the time every story waits, so two are played at once, each in a process of its own with an AWS of its own.
Stories whose verdict depends on seconds are played alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from infra.local.embedded import ROOT, EmbeddedAws, embedded_aws
from tests.e2e.fleet import Fleet, deployed
from tests.interop import several_streams
from tests.interop.build import Profile, build, problem
from tests.interop.deaggregation import COUNT, compare
from tests.interop.filters import COUNT as FILTERED
from tests.interop.filters import compare as compare_filters
from tests.interop.produced import PRODUCED, compare_produced
from tests.interop.stories.catch_up import CatchUp
from tests.interop.stories.even_shares import OF_FOUR, ON_LAMBDA, EvenOnLambda, EvenShares, First, Size
from tests.interop.stories.fan_out import FanOut, FanOutTogether
from tests.interop.stories.handoff import Handoff, HandoffDeaths
from tests.interop.stories.led_fleet import LedFleet
from tests.interop.stories.migration import Migration, Tables
from tests.interop.stories.multilang import MultiLang
from tests.interop.stories.seeking import Seeking, SeekingBehindCleanup
from tests.interop.stories.sequential import Sequential
from tests.interop.stories.spark import Spark
from tests.interop.stories.together import Together
from tests.interop.workers import Java, end_by_exception
from tests.mixed_fleet.stage import Stage, is_well, new_fleet, stage_of
from tests.mixed_fleet.workers import Employer

SMALL = Size(3, 5)
"""Half of KCL's default failover time: every step waits for it, twice or more."""
DEAGGREGATION = "deaggregation"
"""Not a story: see deaggregation.py, and produced.py for what sublet.Producer puts. `python -m
tests.interop.deaggregation` uses other records."""
FILTERS = "filters"
"""Not a story: see filters.py."""
SEED = 20260131
SEVERAL = {"several-2": Profile.KCL_2, "several-3": Profile.KCL_3}
"""Not stories of one stream: see several_streams.py."""


AT_ONCE = 2
LOOKS_EVERY = 0.5
"""Seconds between checks of the running stories."""


class _Playing(NamedTuple):
    process: subprocess.Popen[bytes]
    said: Path


class Story(Protocol):
    @property
    def repeats_nothing(self) -> Container[str]:
        """Events that must not cause repeats (`is_well`)."""

    def run(self) -> None: ...


SHORT: Mapping[str, Callable[[Stage, Java], Story]] = {
    "sequential-2": partial(Sequential, profile=Profile.KCL_2),
    "sequential-3": partial(Sequential, profile=Profile.KCL_3),
    "handoff": Handoff,
    "together-2": partial(Together, profile=Profile.KCL_2),
    "fan-out-3": partial(FanOut, profile=Profile.KCL_3),
}
LONG: Mapping[str, Callable[[Stage, Java], Story]] = {
    "handoff-deaths": HandoffDeaths,
    "fan-out-2": partial(FanOut, profile=Profile.KCL_2),
    **{
        f"fan-out-together-{number}": partial(FanOutTogether, profile=profile)
        for number, profile in ((2, Profile.KCL_2), (3, Profile.KCL_3))
    },
    "together-3": partial(Together, profile=Profile.KCL_3),
    "led-fleet": LedFleet,
    **{f"even-{first}": partial(EvenShares, first=first) for first in First},
    "even-lambda": EvenOnLambda,
    "even-3.4": partial(EvenShares, first=First.NEITHER, profile=Profile.KCL_3_4),
    "seeking-2": partial(Seeking, profile=Profile.KCL_2),
    "seeking-3": partial(Seeking, profile=Profile.KCL_3),
    "seeking-cleaned": partial(SeekingBehindCleanup, profile=Profile.KCL_2),
    "migration": Migration,
    "tables": Tables,
    "catch-up": CatchUp,
    "multilang": MultiLang,
    "spark": Spark,
}
SIZES = {**{f"even-{which}": OF_FOUR for which in (*First, "3.4")}, "even-lambda": ON_LAMBDA}
DEPLOYED: Mapping[str, Mapping[str, str]] = {
    "catch-up": {
        "failover_time": f"{SMALL.failover_seconds}s",
        "heartbeat_interval": "1s",
        "worker_count": "1",
    },
    "even-lambda": {
        "failover_time": f"{ON_LAMBDA.failover_seconds}s",
        "heartbeat_interval": f"{ON_LAMBDA.failover_seconds // 3}s",
        "worker_count": "1",
        "mode": "continuous",
    },
}


def main() -> int:
    arguments = _arguments()
    end_by_exception()
    if why := problem():
        print(f"skipped: {why}")
        return int("CI" in os.environ)
    build()
    names = arguments.stories or list(LONG if arguments.long else [*SHORT, *SEVERAL, DEAGGREGATION, FILTERS])
    if len(names) == 1:
        return int(not _told(*names))
    wrong = [
        *_not_well([name for name in names if name not in SIZES], AT_ONCE),
        *_not_well([name for name in names if name in SIZES], 1),
    ]
    print(f"not well: {', '.join(wrong)}" if wrong else "all is well")
    return int(bool(wrong))


def _told(name: str) -> bool:
    started = time.monotonic()
    print(f"==> {name}", flush=True)
    if name == DEAGGREGATION:
        clean = compare(COUNT, SEED) & compare_produced(PRODUCED, SEED)
    elif name == FILTERS:
        clean = compare_filters(FILTERED, SEED)
    elif name in SEVERAL:
        with embedded_aws() as aws:
            clean = several_streams.is_well(aws, SEVERAL[name])
    else:
        with embedded_aws() as aws:
            clean = _play(aws, name)
    print(f"{name}: {'well' if clean else 'not well'}, {time.monotonic() - started:.0f} s", flush=True)
    return clean


def _not_well(names: Sequence[str], at_once: int) -> list[str]:
    """The failed ones of these, each played in a process of its own; its output is printed when it ends."""
    waiting, playing, wrong = deque(names), dict[str, _Playing](), []
    try:
        while waiting or playing:
            while waiting and len(playing) < at_once:
                name = waiting.popleft()
                playing[name] = _begin(name)
            for name, (process, said) in [*playing.items()]:
                if process.poll() is not None:
                    del playing[name]
                    print(f"\n{said.read_text()}", end="", flush=True)
                    wrong += [name] if process.returncode else []
            time.sleep(LOOKS_EVERY)
    finally:
        for process, _ in playing.values():
            process.terminate()
            process.wait()
    return wrong


def _begin(name: str) -> _Playing:
    handle, said = tempfile.mkstemp(prefix=f"sublet-interop-{name}-", suffix=".txt")
    command = [sys.executable, "-m", "tests.interop", name]
    with os.fdopen(handle, "wb") as output:
        return _Playing(subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output), Path(said))


def _play(aws: EmbeddedAws, name: str) -> bool:
    folder = Path(tempfile.mkdtemp(prefix=f"sublet-interop-{name}-"))
    with _fleet(aws, name, folder) as fleet:
        application = fleet.outputs["LeaseTable"]
        stage = stage_of(fleet, folder, lambda line: print(line, flush=True))
        failover_seconds = SIZES.get(name, SMALL).failover_seconds
        employer = Employer(aws, application, fleet.stream, folder, failover_seconds=failover_seconds)
        story = {**SHORT, **LONG}[name](stage, Java(employer))
        clean = is_well(stage, story.run, repeats_nothing=story.repeats_nothing)
    print(f"logs and records: {folder}")
    return clean


def _fleet(aws: EmbeddedAws, name: str, folder: Path) -> AbstractContextManager[Fleet]:
    application, shards = f"interop-{name.replace('.', '-')}", SIZES.get(name, SMALL).shards
    if name in DEPLOYED:
        return deployed(aws, application, folder, shards, **DEPLOYED[name])
    return nullcontext(new_fleet(aws, application, shards, folder))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interop")
    parser.add_argument(
        "stories",
        nargs="*",
        metavar="STORY",
        help=", ".join([DEAGGREGATION, FILTERS, *SHORT, *SEVERAL, *LONG]),
    )
    parser.add_argument("--long", action="store_true", help="the long ones, instead of the short ones")
    arguments = parser.parse_args()
    if unknown := set(arguments.stories) - {DEAGGREGATION, FILTERS, *SHORT, *SEVERAL, *LONG}:
        parser.error(f"no such story: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
