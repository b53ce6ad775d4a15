"""`make rolling`: 0.2 deployed by its own code, this version over it, back and forward again, under load; then the
verdict."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from infra.local import ServerFailed
from infra.local.deploy import DeploymentFailed
from tests.chaos.verdict import Verdict
from tests.rolling.run import Found, PhaseFigures, RollingFailed, run
from tests.rolling.version import RELEASED, NoSuchVersion

EXAMPLES = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rolling", description=__doc__)
    parser.add_argument("--older", default=RELEASED, metavar="COMMIT", help="default: %(default)s, 0.2")
    parser.add_argument("--settle", type=float, default=25.0, help="seconds of load on each version")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the journals of every handler call there")
    arguments = parser.parse_args()
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="sublet-rolling-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        found = run(folder, lambda text: print(text, flush=True), arguments.settle, arguments.older)
    except (RollingFailed, DeploymentFailed, ServerFailed, NoSuchVersion) as failure:
        print(f"The run did not get to its end: {failure}\nThe journals are in {folder}")
        return 1
    print(f"{report(found)}\n{time.monotonic() - began:.0f} s in all")
    if not found.is_clean:
        print(f"The journals are in {folder}")
        return 1
    if arguments.keep is None:
        shutil.rmtree(folder)
    return 0


def report(found: Found) -> str:
    verdict = found.verdict
    lines = [
        _counts(verdict),
        f"{verdict.calls:,} calls of the handler, of which {verdict.failed_calls:,} failed; {found.reshards} reshards",
        *map(_phase, found.phases),
    ]
    wrong = [
        *(f"lost: {text}" for text in verdict.missing),
        *verdict.out_of_order,
        *verdict.broken_tenures,
        *verdict.too_far_back,
        *found.wrong,
    ]
    return "\n".join([*lines, *wrong[:EXAMPLES]])


def _counts(verdict: Verdict) -> str:
    handled = f"{verdict.put:,} records put, {verdict.handled:,} handled, {len(verdict.missing)} lost"
    return f"{handled}, {verdict.order_violations} out of order, {verdict.again:,} handled once more"


def _phase(phase: PhaseFigures) -> str:
    calls = f"deployed in {phase.deployment_seconds:.0f} s; {phase.calls:,} calls, {phase.again:,} records once more"
    return f"{phase.version:>8}: {calls}, no shard without a call for more than {phase.longest_pause:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
