"""A few hundred worlds, sixty of them in `make test`; those that once broke a promise; and exact replay by seed.

`make simulate` draws new worlds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from sublet.testing.simulation.run import Result

from tests.exploring import first, in_blocks
from tests.simulation.simulation import simulate

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(341_229_147, 341_229_147 + 300)

FAILED_ONCE = {
    162795343: "two invocations of one item: what the other's late checkpoint had written was asked for once more",
    21: "a lease table out of reach just after a shard's end ended the whole window",
    24: "a merge whose other parent's row had been deleted was blocked, prompted and blocked again for ever",
    60: "a second attempt at an item took over from a live Java worker, which leaves our holder on the row",
    95: "a malformed row counted as a parent that has not ended, and the other one was created again at LATEST",
    123: "as 60, from a KCL 3.x worker",
    139: "as 24",
    160: "four leases for three of our own worker ids were 2, 2, 0",
    247: "as 60",
    255: "as 24",
    292: "as 60",
    517: "a claim on a deleted row met the new row at the same counter",
    527: "a row deleted and created again reached the old owner's counter, and its release was accepted",
    705: "a stale scan missed a parent created a second before, and its child was begun",
    1418: "as 527, with a heartbeat",
    705341527: "a child at LATEST skipped what came while it asked for the time and its parent's lease was created",
}
"""Seed, and what it found at the time. After a change of the code a seed draws another world, so each has a unit test
or story too.
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", in_blocks(SEEDS, size=20, few=2))
def test_worlds_keep_every_promise(seeds: Sequence[int]) -> None:
    results = [simulate(seed) for seed in seeds]
    broken = [result for result in results if result.violation]
    assert not broken, "\n".join(map(told, broken))
    assert sum(result.handled for result in results) > len(results), "worlds in which nothing is handled prove nothing"
    assert sum(sum(result.faults.values()) for result in results) > len(results), "nor do worlds without faults"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", first(5, sorted(FAILED_ONCE)))
def test_worlds_that_once_broke_a_promise(seed: int) -> None:
    result = simulate(seed)
    assert result.violation is None, f"{told(result)}\nwhat this seed once found: {FAILED_ONCE[seed]}"


def test_a_seed_replays_exactly_whatever_pythons_hash_seed() -> None:
    told_twice = [_told_by_the_command(seed=17, hash_seed=hash_seed) for hash_seed in ("1", "2")]
    assert told_twice[0] == told_twice[1]
    assert len(told_twice[0].splitlines()) > 100, "a history that says nothing replays easily"


def _told_by_the_command(seed: int, hash_seed: str) -> str:
    path = os.pathsep.join((str(ROOT / "layers/sublet/python"), str(ROOT / "infra"), str(ROOT)))
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--verbose"]
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path, "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def told(result: Result) -> str:
    history = simulate(result.seed, is_recorded=True).history
    replay = f".venv/bin/python -m tests.simulation --seed {result.seed} --verbose"
    return "\n".join((f"seed {result.seed}: {result.violation}", *history[-40:], f"the whole history: {replay}"))
