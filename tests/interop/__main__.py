"""`make interop`, `make interop-long`: Java's own KCL, 2.x and 3.x, and the KPL, beside sublet on one lease table.

`python -m tests.interop [STORY...]`, or `--long` for the long ones; without any, the short ones. Everything is real but
AWS, which is embedded (infra/local): on loopback, with its own random keys. Ends with 1 if a story's verdict is not clean
(tests/mixed_fleet/verdict.py), or if something is repeated that a graceful stop had left behind.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Container, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol

from infra.local.embedded import EmbeddedAws, embedded_aws
from tests.e2e.fleet import Fleet, deployed
from tests.interop.build import Profile, build, problem
from tests.interop.deaggregation import COUNT, compare
from tests.interop.stories.catch_up import CatchUp
from tests.interop.stories.even_shares import OF_FOUR, ON_LAMBDA, EvenOnLambda, EvenShares, First, Size
from tests.interop.stories.handoff import Handoff, HandoffDeaths
from tests.interop.stories.led_fleet import LedFleet
from tests.interop.stories.migration import Migration, Tables
from tests.interop.stories.multilang import MultiLang
from tests.interop.stories.sequential import Sequential
from tests.interop.stories.spark import Spark
from tests.interop.stories.together import Together
from tests.interop.workers import Java, end_by_exception
from tests.mixed_fleet.stage import Stage, is_well, new_fleet, stage_of
from tests.mixed_fleet.workers import Employer

SMALL = Size(3, 5)
"""Half of KCL's default failover time: every step waits for it, twice or more."""
DEAGGREGATION = "deaggregation"
"""No story: see deaggregation.py."""


class Story(Protocol):
    @property
    def repeats_nothing(self) -> Container[str]:
        """What must leave nothing to be handled again (`is_well`)."""

    def run(self) -> None: ...


SHORT: Mapping[str, Callable[[Stage, Java], Story]] = {
    "sequential-2": partial(Sequential, profile=Profile.KCL_2),
    "sequential-3": partial(Sequential, profile=Profile.KCL_3),
    "handoff": Handoff,
    "together-2": partial(Together, profile=Profile.KCL_2),
}
LONG: Mapping[str, Callable[[Stage, Java], Story]] = {
    "handoff-deaths": HandoffDeaths,
    "together-3": partial(Together, profile=Profile.KCL_3),
    "led-fleet": LedFleet,
    **{f"even-{first}": partial(EvenShares, first=first) for first in First},
    "even-lambda": EvenOnLambda,
    "even-3.4": partial(EvenShares, first=First.NOBODY, profile=Profile.KCL_3_4),
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
    wrong = []
    with embedded_aws() as aws:
        for name in arguments.stories or (LONG if arguments.long else [DEAGGREGATION, *SHORT]):
            started = time.monotonic()
            print(f"\n==> {name}", flush=True)
            if not (compare(COUNT, secrets.randbelow(2**32)) if name == DEAGGREGATION else _play(aws, name)):
                wrong.append(name)
            print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
    print(f"not well: {', '.join(wrong)}" if wrong else "all is well")
    return int(bool(wrong))


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
    parser.add_argument("stories", nargs="*", metavar="STORY", help=", ".join([DEAGGREGATION, *SHORT, *LONG]))
    parser.add_argument("--long", action="store_true", help="the long ones, instead of the short ones")
    arguments = parser.parse_args()
    if unknown := set(arguments.stories) - {DEAGGREGATION, *SHORT, *LONG}:
        parser.error(f"no such story: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
