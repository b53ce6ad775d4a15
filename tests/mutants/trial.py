"""Tests one mutant with the tests of its package, and then in simulated worlds, each in a process that may hang.

A copy of the library, made of links, has the mutant instead of its file, so that the sources stay unchanged. The
processes are forks of this one, which has imported what all of them need and nothing of the library.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import ceil
from pathlib import Path
from typing import Self

import boto3  # noqa: F401 - so that no fork has to
import hypothesis  # noqa: F401
import pytest

from tests.mutants.mutate import Mutant, place

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "layers" / "sublet" / "python"

SLOWER_AT_MOST = 4
"""A mutant with which the tests, or the worlds, take so many times the seconds of CPU that they take without one counts
as noticed."""

LIMIT = 90
"""Seconds of CPU that a mutant has at least."""

PATIENCE = 600.0
"""Seconds by the clock, for a mutant that waits for ever. A busy machine must not be mistaken for it."""

OPERATE = (
    "tests/unit/operate/rules",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/unit/operate").glob("test_*.py")),
)
"""Without the commands' and the console's tests, which are slow and look at what rules decide through much else."""

TESTS = {
    "decisions": (
        "tests/unit/decisions",
        "tests/scenarios",
        "tests/property",
        "tests/unit/engine",
        *OPERATE,
        "tests/unit/putting",
    ),
    "operate": (*OPERATE, "tests/scenarios", "tests/property", "tests/unit/engine"),
    "spark": ("tests/unit/spark",),
    "engine": ("tests/unit/engine",),
    "protocol": ("tests/unit/protocol", "tests/property", "tests/unit/engine"),
}
"""By package. Tests in files with the mutant's own name come first, and mostly suffice."""

FIRST_WORLD = 1_000


class Outcome(StrEnum):
    NOTICED = "noticed"
    SURVIVED = "survived"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The results of the package's tests and of the simulation for a mutant."""

    mutant: Mutant
    tests: Outcome
    simulation: Outcome

    @property
    def is_noticed(self) -> bool:
        return Outcome.NOTICED in (self.tests, self.simulation)

    @property
    def said(self) -> str:
        return f"tests {self.tests}, simulation {self.simulation}"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a fork ended, and the seconds of CPU that it used."""

    outcome: Outcome
    used: float

    @property
    def limit(self) -> int:
        """For the same with a mutant."""
        return max(LIMIT, ceil(SLOWER_AT_MOST * self.used))


class Trials:
    """A context: the copy exists as long. Forks of this process load it, so the process must not have loaded the
    library.
    """

    def __init__(self, worlds: int) -> None:
        if "sublet" in sys.modules:
            raise RuntimeError("this process has loaded the library, so its forks would not load a mutant")
        self._worlds = worlds
        self._folder = tempfile.TemporaryDirectory(prefix="sublet-mutants-")
        self._library = Path(self._folder.name)
        self._count = 0
        self._limits: dict[str, int] = {}
        self._limit_of_worlds = LIMIT

    def __enter__(self) -> Self:
        for source in LIBRARY.rglob("*.py"):
            link = self._library / source.relative_to(LIBRARY)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def check(self, chosen: Iterable[Mutant]) -> None:
        """Checks that the tests and the worlds find nothing in the unchanged library, and notes how long they take."""
        for package in sorted({package_of(mutant.file) for mutant in chosen}):
            ended = self._forked(partial(self._run_tests, TESTS[package]), resource.RLIM_INFINITY)
            if ended.outcome is not Outcome.SURVIVED:
                raise RuntimeError(
                    f"the tests of {package} fail without any mutant, after {ended.used:.0f} s of CPU: run "
                    f'python -m pytest -x -m "not explores" {" ".join(TESTS[package])}'
                )
            self._limits[package] = ended.limit
        ended = self._forked(self._simulate, resource.RLIM_INFINITY)
        if ended.outcome is not Outcome.SURVIVED:
            raise RuntimeError("the simulation finds something without any mutant")
        self._limit_of_worlds = ended.limit

    def judge(self, mutant: Mutant, *, both: bool = False) -> Verdict:
        """The simulation runs if the tests have not noticed the mutant, or if `both`."""
        place = self._library / mutant.file.relative_to(LIBRARY)
        place.unlink()
        place.write_text(mutant.source)
        self._count += 1
        os.utime(place, (self._count, self._count))  # Python knows a changed file by its time and size
        try:
            tests = self._tested(mutant.file)
            is_asked = both or tests is Outcome.SURVIVED
            simulation = self._forked(self._simulate, self._limit_of_worlds).outcome if is_asked else Outcome.NOT_ASKED
        finally:
            place.unlink()
            place.symlink_to(mutant.file)
        return Verdict(mutant, tests, simulation)

    def _tested(self, file: Path) -> Outcome:
        """With its own tests, and then all of its package's."""
        package = package_of(file)
        limit = self._limits.get(package, LIMIT)
        for chosen in (own_tests(file), TESTS[package]):
            if chosen and self._forked(partial(self._run_tests, chosen), limit).outcome is Outcome.NOTICED:
                return Outcome.NOTICED
        return Outcome.SURVIVED

    def _run_tests(self, chosen: Iterable[str]) -> bool:
        given = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=quick"]
        given += ["-o", f"pythonpath={self._library} infra ."]
        given += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what this process has imported
        return pytest.main([*given, "-m", "not explores", *chosen]) == 0

    def _simulate(self) -> bool:
        from tests.simulation.simulation import simulate

        return all(simulate(FIRST_WORLD + seed).violation is None for seed in range(self._worlds))

    def _forked(self, is_fine: Callable[[], bool], limit: int) -> Ended:
        """Any end of the fork but a clean one counts as noticed: a wrong answer, an exception, its own death, or the
        limit, in seconds of CPU."""
        child = os.fork()
        if child == 0:
            sys.path[:0] = [
                str(self._library),
                str(ROOT),
            ]  # before all that may import the library, pytest's plugins too
            _in_fork(is_fine, limit)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                return Ended(Outcome.SURVIVED if status == 0 else Outcome.NOTICED, usage.ru_utime + usage.ru_stime)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        usage = os.wait4(child, 0)[2]
        return Ended(Outcome.NOTICED, usage.ru_utime + usage.ru_stime)


def own_tests(file: Path) -> tuple[str, ...]:
    """The test files with a file's name."""
    folders = TESTS[package_of(file)]
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob(f"test_{file.stem}.py")))
    return tuple(str(path.relative_to(ROOT)) for path in found)


def package_of(file: Path) -> str:
    return place(file).parts[0]


def _in_fork(is_fine: Callable[[], bool], limit: int) -> None:
    os.setsid()
    os.chdir(ROOT)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    code = 1
    try:
        code = 0 if is_fine() else 1
    finally:
        os._exit(code)
