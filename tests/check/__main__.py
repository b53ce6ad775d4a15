"""`make check`: checks what differs from main, quickly. `make test` checks the rest.

Style and layers of everything, types of the changed Python files, and the fast tests that import them (touched.py):
those without a deployed stack or an emulator that are not marked slow, with a few examples of each property. Or one
test file, by name. All run in parallel; each prints when it ends.

Not pytest-testmon (2.2), which selects by the Python that a test ran: a changed scenario, document or lock file selects
nothing, and it selects from the second run on, since the first is all fast tests under coverage, at three times the
CPU. A rule's change selects all that ran the rule: 217 tests for one line of the failure policy, whose own are in four
files.
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

from tests.check.touched import that_import

ROOT = Path(__file__).resolve().parents[2]
CHECKED_FROM_INFRA = "infra/sublet_cdk/"
"""Checked as a package, from the folder that contains it."""

PYTHON = (sys.executable, "-m")
LINT_IMPORTS = str(Path(sys.executable).with_name("lint-imports"))
GIT = shutil.which("git") or "git"
PYTEST = (*PYTHON, "pytest", "-q", "--no-header")
FAST = ("-m", "not slow and not e2e and not emulator and not explores", "--hypothesis-profile", "quick")
SIDE_BY_SIDE = ("-n", "2", "--dist", "worksteal")
MANY = 10
"""The number of files from which on a second process is worth its start."""

NO_TESTS = 5
"""Pytest's exit code if all selected tests are slow or need an emulator."""


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
    changed = changed_files()
    steps = [*lint(changed), *(named_tests(named) if named else fast_tests(that_import(changed)))]
    started = time.monotonic()
    with ThreadPoolExecutor(len(steps)) as threads:
        ended = [tell(each.result()) for each in as_completed([threads.submit(run, step) for step in steps])]
    failed = [each.step.name for each in ended if each.code]
    print(f"{'failed: ' + ', '.join(failed) if failed else 'ok'}, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


def lint(changed: Sequence[str]) -> list[Step]:
    python = [path for path in changed if path.endswith(".py")]
    constructs = [path for path in python if path.startswith(CHECKED_FROM_INFRA)]
    others = [path for path in python if path not in constructs]
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
    return [Step("tests", (*PYTEST, *names))]


def fast_tests(files: Sequence[str]) -> list[Step]:
    if not files:
        return []
    beside = SIDE_BY_SIDE if len(files) >= MANY else ()
    name = f"fast tests of {len(files)} files that import what differs from main"
    return [Step(name, (*PYTEST, *FAST, *beside, *files))]


def changed_files() -> list[str]:
    """Files changed since this branch left main, committed or not. In a clone without main, only uncommitted ones."""
    branches = [name for name in ("main", "origin/main") if git("rev-parse", "--verify", "--quiet", name)]
    since = git("merge-base", "HEAD", branches[0])[0] if branches else "HEAD"
    listed = git("diff", "--name-only", "--diff-filter=d", since) + git("ls-files", "--others", "--exclude-standard")
    return sorted(set(listed))


def git(*arguments: str) -> list[str]:
    """Its output lines; empty if it fails, as outside a repository."""
    return subprocess.run((GIT, *arguments), cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


def run(step: Step) -> Ended:
    started = time.monotonic()
    done = subprocess.run(
        step.command,
        cwd=step.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    code = 0 if done.returncode == NO_TESTS and "pytest" in step.command else done.returncode
    return Ended(step, code, done.stdout, time.monotonic() - started)


def tell(ended: Ended) -> Ended:
    """One line for a step that passed, all output for one that failed."""
    lines = ended.text.strip().splitlines()
    print(f"==> {ended.step.name}, {ended.seconds:.0f} s{': failed' if ended.code else ''}", flush=True)
    print("\n".join(lines if ended.code else lines[-1:]), flush=True)
    return ended


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
