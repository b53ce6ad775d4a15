"""The release that upgrades start from: its code, by which the tests run it beside this version's.

Its code comes from this repository's history. In a shallow clone the tests that need it are skipped, until the history
is fetched (`git fetch --unshallow`). In a whole clone, where CI is set, a missing commit is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from infra.local.embedded import ROOT
from tests.rolling.version import RELEASED, TREES, NoSuchVersion, source_of

DATA = ROOT / "tests" / "data" / "upgrades"
PATHS = (
    "layers/sublet/python",
    "infra/sublet_cdk",
    "functions",
    "requirements",
    "docs",
    "examples",
    "README.md",
)
INHERITED = ("HOME", "JAVA_HOME", "JDK_JAVA_OPTIONS", "LANG", "PATH", "TMPDIR", "XDG_CACHE_HOME")


class Code(NamedTuple):
    """A version's code. `version`: as the tests' messages call it."""

    version: str
    tree: Path

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """For a Python that runs this code, whichever version is installed beside it; and nothing of this process'
        AWS.
        """
        folders = [self.tree / "layers" / "sublet" / "python", self.tree / "infra"]
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, folders)), **given}

    def command(self, *words: str, python: str = sys.executable) -> list[str]:
        """`python -m sublet ...`."""
        return [python, "-m", "sublet", *words]


NOW = Code("now", ROOT)


@cache
def released_code() -> Code:
    """Raises NoSuchVersion."""
    tree = TREES / f"{RELEASED}-code"
    if not tree.exists():
        TREES.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=TREES))
        try:
            source_of(RELEASED, fresh, *PATHS).rename(tree)
        except OSError:
            shutil.rmtree(fresh)  # another process was first
    return Code("0.2", tree)


def released_or_skipped() -> Code:
    try:
        return released_code()
    except NoSuchVersion as missing:
        reason = f"release 0.2 is not in this clone's history (git fetch --unshallow): {missing}"
        if "CI" in os.environ and not _is_shallow():
            pytest.fail(reason)
        pytest.skip(reason)


def _is_shallow() -> bool:
    asked = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() == "true"
