"""`make check`: what can be known in twenty seconds on two cores. `make test` knows the rest.

Style and layers of everything, types of the Python files that differ from main, and the fast tests: those without a deployed
stack or an emulator that are not marked slow, with a few examples of each property. Or one test file by its name. All at once;
each prints when it ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CHECKED_FROM_INFRA = "infra/sublet_cdk/"
"""The package that is checked as the package that it is, from the folder that it is found in."""

PYTHON = (sys.executable, "-m")
LINT_IMPORTS = str(Path(sys.executable).with_name("lint-imports"))
GIT = shutil.which("git") or "git"
PYTEST = (*PYTHON, "pytest", "-q", "--no-header", "-m", "not slow and not e2e and not emulator")
QUICK = ("--hypothesis-profile", "quick")
HALVES = (
    ("tests/unit/engine", "tests/unit/runtimes", "tests/unit/testing", "tests/scenarios"),
    ("tests/unit", "tests/property", "tests/docs"),
)
"""Two processes' tests, of about the same length: what the first has, the second leaves out."""


class Step(NamedTuple):
    name: str
    command: Sequence[str]
    folder: Path = ROOT


class Ended(NamedTuple):
    step: Step
    code: int
    text: str
    seconds: float


def main(named: Sequence[str]) -> int:
    steps = [*lint(changed_files()), *(named_tests(named) if named else fast_tests())]
    started = time.monotonic()
    with ThreadPoolExecutor(len(steps)) as threads:
        ended = [tell(each.result()) for each in as_completed([threads.submit(run, step) for step in steps])]
    failed = [each.step.name for each in ended if each.code]
    print(f"{'failed: ' + ', '.join(failed) if failed else 'ok'}, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


def lint(changed: Sequence[str]) -> list[Step]:
    constructs = [path for path in changed if path.startswith(CHECKED_FROM_INFRA)]
    others = [path for path in changed if path not in constructs]
    steps = [
        Step("ruff", (*PYTHON, "ruff", "check", ".")),
        Step("ruff's format", (*PYTHON, "ruff", "format", "--check", "--quiet", ".")),
        Step("import-linter", (LINT_IMPORTS, "--no-logo")),
    ]
    if others:
        steps.append(Step(f"mypy on {len(others)} that differ from main", (*PYTHON, "mypy", *others)))
    if constructs:
        paths = [path.removeprefix("infra/") for path in constructs]
        options = ("--config-file", "../pyproject.toml", "--cache-dir", "../.local/mypy")
        steps.append(Step("mypy on the constructs", (*PYTHON, "mypy", *options, *paths), ROOT / "infra"))
    return steps


def named_tests(names: Sequence[str]) -> list[Step]:
    return [Step("tests", (*PYTHON, "pytest", "-q", "--no-header", *names))]


def fast_tests() -> list[Step]:
    first, second = HALVES
    left_out = [f"--ignore={path}" for path in first]
    return [
        Step("fast tests, one half", (*PYTEST, *QUICK, *first)),
        Step("fast tests, the other half", (*PYTEST, *QUICK, *second, *left_out)),
    ]


def changed_files() -> list[str]:
    """Python files that differ from where this branch left main, whether committed or not. A clone without
    a main has only what is not committed.
    """
    branches = [name for name in ("main", "origin/main") if git("rev-parse", "--verify", "--quiet", name)]
    since = git("merge-base", "HEAD", branches[0])[0] if branches else "HEAD"
    listed = git("diff", "--name-only", "--diff-filter=d", since) + git(
        "ls-files", "--others", "--exclude-standard"
    )
    return sorted({path for path in listed if path.endswith(".py")})


def git(*arguments: str) -> list[str]:
    """Its lines; none where it fails, as outside a repository."""
    return subprocess.run(
        (GIT, *arguments), cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()


def run(step: Step) -> Ended:
    started = time.monotonic()
    done = subprocess.run(
        step.command,
        cwd=step.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return Ended(step, done.returncode, done.stdout, time.monotonic() - started)


def tell(ended: Ended) -> Ended:
    """One line of what is well, and all of what is not."""
    lines = ended.text.strip().splitlines()
    print(f"==> {ended.step.name}, {ended.seconds:.0f} s{': failed' if ended.code else ''}", flush=True)
    print("\n".join(lines if ended.code else lines[-1:]), flush=True)
    return ended


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
