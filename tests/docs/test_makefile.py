"""The rules of `make setup`, run by a shell that only logs its commands and creates the marker files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "Makefile",
    "pyproject.toml",
    "package.json",
    "package-lock.json",
    ".npmrc",
    "infra/sublet_cdk/dependencies.py",
    "layers/sublet/python/sublet/__init__.py",
)

NOTING_SHELL = """#!/bin/sh
for command in "$@"; do :; done
case "$command" in
  "touch "*) file="${command#touch }"; mkdir -p "$(dirname "$file")"; touch "$file" ;;
  :) ;;
  *) printf '%s\\n' "$command" >> noted ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the inputs of `make setup`, without its outputs."""
    for name in COPIED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shell = tmp_path / "shell"
    shell.write_text(NOTING_SHELL)
    shell.chmod(0o755)
    return tmp_path


def done_by_setup(folder: Path) -> list[str]:
    """The commands of the rules, without those that run while the Makefile is read, such as the check for Node."""
    noted = folder / "noted"
    noted.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(
        [shutil.which("make") or "make", f"SHELL={folder / 'shell'}", "setup"],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    lines = noted.read_text().splitlines() if noted.exists() else []
    return [line for line in lines if not line.startswith("node -e")]


def headlines(commands: list[str]) -> list[str]:
    return [line.partition("\\n' \"")[2] for line in commands if "==> " in line]


def test_second_setup_does_nothing(folder: Path) -> None:
    assert len(headlines(done_by_setup(folder))) >= 5
    assert done_by_setup(folder) == []


def test_a_changed_lock_file_is_one_step_s_business(folder: Path) -> None:
    done_by_setup(folder)
    newer = (folder / "layers" / "dependencies" / ".built").stat().st_mtime + 1
    os.utime(folder / "requirements" / "layer.txt", (newer, newer))
    (step,) = headlines(done_by_setup(folder))
    assert step.startswith("The Lambda layer")
