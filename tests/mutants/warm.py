"""Mutants by the hundred, in forks of one process that has loaded the library, its tests and the simulation.

All of them are in functions. A fork swaps the function that a mutant changes (`swap`) and runs the tests that run its
lines (`touched`), which takes a tenth of a second, while a new process takes several.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.mutate import Mutant
from tests.mutants.swap import Swap, Swaps
from tests.mutants.touched import Touched
from tests.mutants.trial import FIRST_WORLD, LIMIT, OPERATE, PATIENCE, ROOT, Outcome, Verdict

TESTS = (
    "tests/unit/decisions",
    "tests/unit/engine",
    "tests/unit/protocol",
    "tests/unit/pull",
    "tests/unit/handlers",
    *OPERATE,
    "tests/unit/runtimes",
    "tests/unit/putting",
    "tests/unit/spark/plan",
    "tests/scenarios",
    "tests/property",
)
SLOWER_AT_MOST, AT_LEAST = 2, 5
"""In a fork each test has twice the seconds of CPU that it took while it was watched, plus five; an infinite loop
takes longer."""

STANDS_STILL = 20.0
"""Seconds in which a fork has used no CPU at all: it waits for ever."""

Judged = Callable[[Verdict], bool]
"""Gets each verdict; returns False to stop."""


@dataclass
class WarmTrials:
    """A pytest plugin, which replaces running the collected tests."""

    chosen: Sequence[Mutant]
    worlds: int
    both: bool
    tell: Judged
    _items: dict[str, pytest.Item] = field(default_factory=dict)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        files = {mutant.file for mutant in self.chosen}
        touched = Touched(frozenset(map(str, files)))
        for name in list(self._items):
            self._watch(name, touched)
        if self.worlds and not self._simulate():
            raise RuntimeError("the simulation finds something without any mutant")
        swaps = Swaps.of(files)
        gc.freeze()  # or each fork's collections would copy all that is loaded
        for mutant in self.chosen:
            swap = swaps.of_mutant(mutant)
            no_test_loads_it = Verdict(mutant, Outcome.SURVIVED, Outcome.NOT_ASKED)
            if not self.tell(no_test_loads_it if swap is None else self._judge(mutant, swap, touched)):
                break
        return True

    def _watch(self, name: str, touched: Touched) -> None:
        began = time.process_time()
        with touched.watching(name):
            is_fine = self._passes(name)
        touched.seconds[name] = time.process_time() - began
        if not is_fine:
            del self._items[name]  # it would notice everything
            print(f"fails without any mutant, and is not asked: {name}", flush=True)

    def _judge(self, mutant: Mutant, swap: Swap, touched: Touched) -> Verdict:
        names = [name for name in touched.tests_of(mutant) if name in self._items]

        def pass_in_time() -> bool:
            return all(
                _within(SLOWER_AT_MOST * touched.seconds[name] + AT_LEAST, partial(self._passes, name))
                for name in names
            )

        tests = _forked(swap, pass_in_time) if names else Outcome.SURVIVED
        is_asked = self.worlds and (self.both or tests is Outcome.SURVIVED)
        simulation = _forked(swap, partial(_within, LIMIT, self._simulate)) if is_asked else Outcome.NOT_ASKED
        return Verdict(mutant, tests, simulation)

    def _passes(self, name: str) -> bool:
        reports = runtestprotocol(self._items[name], log=False, nextitem=None)
        return not any(report.failed for report in reports)

    def _simulate(self) -> bool:
        from tests.simulation.simulation import simulate

        return all(simulate(FIRST_WORLD + seed).violation is None for seed in range(self.worlds))


def judge_warm(trials: WarmTrials, tests: Sequence[str] = TESTS) -> None:
    given = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:terminalreporter", "--hypothesis-profile=quick"]
    given += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what this process has imported
    os.chdir(ROOT)
    pytest.main([*given, "-m", "not explores", *tests], plugins=[trials])


def _forked(swap: Swap, is_fine: Callable[[], bool]) -> Outcome:
    """Any end of the fork but a clean one counts as noticed: a wrong answer, an exception, its own death, or a
    limit.
    """
    child = os.fork()
    if child == 0:
        _in_fork(swap, is_fine)
    began = moved = time.monotonic()
    used = 0.0
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        now, uses = time.monotonic(), _cpu_seconds(child)
        used, moved = (uses, now) if uses > used else (used, moved)
        if now - moved > STANDS_STILL or now - began > PATIENCE:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return Outcome.SURVIVED if ended[1] == 0 else Outcome.NOTICED


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _within(seconds: float, is_fine: Callable[[], bool]) -> bool:
    """Seconds of CPU; then this process ends."""
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + seconds), resource.RLIM_INFINITY))
    return is_fine()


def _in_fork(swap: Swap, is_fine: Callable[[], bool]) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    code = 1
    try:
        swap.make()
        code = 0 if is_fine() else 1
    finally:
        os._exit(code)
