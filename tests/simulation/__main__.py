"""Runs seeds by the thousand (`--seeds 1000 --from 0`), or one with its history (`--seed 17 --verbose`). `--pull`: pull
worlds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import SystemRandom

from sublet.testing.simulation.run import Result
from sublet.testing.simulation.weather import Fault

from tests.simulation.giving_up import give_up
from tests.simulation.hot_shards import run_hot
from tests.simulation.operating import operate_in, operate_on_forms_in, operate_on_lineages_in
from tests.simulation.other_hands import give_up_beside_other_hands
from tests.simulation.producing import produce
from tests.simulation.pull_worlds import broken_promise
from tests.simulation.pushing import push
from tests.simulation.seeking import seek_in
from tests.simulation.set_aside import set_aside
from tests.simulation.side_by_side import give_up_side_by_side
from tests.simulation.simulation import simulate
from tests.simulation.staying_quiet import stay_quiet
from tests.simulation.versions import roll

WORLDS: Mapping[str, Callable[..., Result]] = {
    "fleets": simulate,
    "giving-up": give_up,
    "side-by-side": give_up_side_by_side,
    "other-hands": give_up_beside_other_hands,
    "giving-up-calm": partial(give_up, without=frozenset(Fault)),
    "side-by-side-calm": partial(give_up_side_by_side, without=frozenset(Fault)),
    "set-aside": set_aside,
    "other-hands-calm": partial(give_up_beside_other_hands, without=frozenset(Fault)),
    "versions": roll,
    "seeking": seek_in,
    "operating": operate_in,
    "lineages": operate_on_lineages_in,
    "forms": operate_on_forms_in,
    "quiet": stay_quiet,
    "push": push,
    "hot": run_hot,
    "produce": produce,
}

HISTORY_SHOWN = 40
"""The last lines to show of a failing seed among many."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--worlds", choices=WORLDS, default="fleets", help="of the engine: fleets, handlers that fail")
    parser.add_argument("--seed", type=int, help="one seed, replayed exactly")
    parser.add_argument("--verbose", action="store_true", help="with --seed: its history")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--from", type=int, dest="first", help="the first one (default: by chance)")
    parser.add_argument("--pull", action="store_true", help="worlds of programs that pull")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        if arguments.pull:
            return _many_pulling(range(arguments.seed, arguments.seed + 1))
        return _one(arguments.worlds, arguments.seed, arguments.verbose)
    first = SystemRandom().randrange(10**9) if arguments.first is None else arguments.first
    seeds = range(first, first + arguments.seeds)
    return _many_pulling(seeds) if arguments.pull else _many(arguments.worlds, seeds)


def _one(worlds: str, seed: int, verbose: bool) -> int:
    result = WORLDS[worlds](seed, is_recorded=verbose)
    print("\n".join(result.history))
    records = f"{result.records} records, {result.lost} of them past retention unread"
    print(f"seed {seed}: {result.violation or 'clean'}; {result.steps:,} steps, {records}; {result.faults}")
    return int(result.violation is not None)


def _many(worlds: str, seeds: range) -> int:
    print(f"{worlds}: seeds {seeds.start} to {seeds.stop - 1}")
    faults: Counter[str] = Counter()
    failed, steps, done = 0, 0, 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(WORLDS[worlds], seeds, chunksize=4):
            done, steps = done + 1, steps + result.steps
            faults.update(result.faults)
            failed += _show(worlds, result)
            if done % 1000 == 0:
                print(f"{done:,} seeds, {failed} failed", flush=True)
    print(f"{len(seeds)} seeds, {failed} failed, {steps:,} steps; faults: {dict(faults.most_common())}")
    return int(failed > 0)


def _many_pulling(seeds: range) -> int:
    print(f"pulling: seeds {seeds.start} to {seeds.stop - 1}")
    failed = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for seed, broken in zip(seeds, pool.map(broken_promise, seeds, chunksize=4), strict=True):
            if broken is not None:
                failed += 1
                print(
                    f"seed {seed}: {broken}\nagain: python -m tests.simulation --pull --seed {seed}",
                    flush=True,
                )
    print(f"{len(seeds)} worlds of programs that pull, {failed} failed")
    return int(failed > 0)


def _show(worlds: str, result: Result) -> bool:
    if result.violation is None:
        return False
    print("\n".join(WORLDS[worlds](result.seed, is_recorded=True).history[-HISTORY_SHOWN:]))
    print(f"seed {result.seed}: {result.violation}")
    print(
        f"the whole history: python -m tests.simulation --worlds {worlds} --seed {result.seed} --verbose",
        flush=True,
    )
    return True


if __name__ == "__main__":
    sys.exit(main())
