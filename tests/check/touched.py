"""Finds the test files that a change touches first: those that import the changed files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("layers/sublet/python", "infra", "functions", "examples", "demo", "benchmarks", "docs", "tests")
"""Where this repository's Python is. The first two are on the path, as is the root."""

ON_PATH = ("layers/sublet/python/", "infra/")
IMPORT = re.compile(
    r"^ *(?:from (?P<module>[\w.]+) import (?P<names>\([^)]*\)|.*)|import (?P<whole>[\w.]+))", re.MULTILINE
)


def that_import(changed: Sequence[str]) -> list[str]:
    """The test files that import, or are, changed files. Follows the tests' own modules, a package's `__init__` and
    conftest.py, but not the library: the direct importer of a rule is its test. `make test` runs all."""
    reached, passing_on = set(changed), set(changed)
    while passing_on:
        found = {file for file, used in imports().items() if file not in reached and used & passing_on}
        reached |= found
        passing_on = {file for file in found if file.startswith("tests/") or file.endswith("/__init__.py")}
    folders = tuple(f"{Path(file).parent}/" for file in reached if Path(file).name == "conftest.py")
    read = {_reading(file) for file in changed if not file.endswith(".py")}
    tests = (file for file in imports() if Path(file).name.startswith("test_"))
    return sorted(file for file in tests if file in reached or file.startswith((*folders, *read)))


@cache
def imports() -> dict[str, set[str]]:
    """Each file's imports within the repository, as paths from the root."""
    paths = [path for place in PLACES for path in (ROOT / place).rglob("*.py")]
    files = {_module(name): name for path in paths if (name := str(path.relative_to(ROOT)))}
    return {
        name: {files[each] for each in _imported((ROOT / name).read_text()) if each in files} for name in files.values()
    }


def _imported(source: str) -> Iterator[str]:
    """Names of modules, and other names that may be modules. Does not use `ast`, which takes three seconds for all
    files."""
    for found in IMPORT.finditer(source):
        if found["module"]:
            yield found["module"]
            yield from (f"{found['module']}.{name}" for name in re.findall(r"\w+", found["names"]))
        else:
            yield found["whole"]


def _reading(file: str) -> str:
    """The folder of the tests that read a non-Python file: a scenario, a lock file, a document or the Makefile."""
    places = {"tests/scenarios/": "tests/scenarios/", "requirements/": "tests/infra/test_lock_files"}
    return next((tests for place, tests in places.items() if file.startswith(place)), "tests/docs/")


def _module(path: str) -> str:
    for place in ON_PATH:
        path = path.removeprefix(place)
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
