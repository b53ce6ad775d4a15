"""Adds bytecode to the deployed sources. Lambda's code folders are read-only, so without it every cold start compiles
everything that it imports, which takes three times as long as the rest of the import.

It is unchecked (PEP 552): the sources are there for tracebacks and are never compared with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

LAYERS = "/opt"
CODE = "/var/task"
"""The folders at which Lambda mounts code and layers."""


def add_bytecode(folder: Path, python_version: str, mounted_at: str) -> None:
    """Compile the sources in `folder`, which Lambda mounts at `mounted_at`. Files that are not Python of that version
    stay as they are. Bytecode is specific to a Python version; without that Python on this machine, nothing is
    added.
    """
    python = python_of_version(python_version)
    if python is not None:
        how = ["--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", mounted_at, "-q", "-q"]
        subprocess.run([python, "-I", "-m", "compileall", *how, str(folder)], check=False)


@cache
def python_of_version(version: str) -> str | None:
    """Finds an interpreter of a version such as 3.13 on this machine: the running one, or one on the PATH."""
    if version == running():
        return sys.executable
    found = shutil.which(f"python{version}")
    if found is None:
        return None
    asked = [found, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    told = subprocess.run(
        asked, capture_output=True, text=True, check=False
    )  # a shim may have no interpreter behind it
    return found if told.stdout.strip() == version else None


def running() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def lacks(python_version: str) -> str | None:
    """Returns a note for the person who deploys if bytecode cannot be made, and otherwise None."""
    if python_of_version(python_version) is not None:
        return None
    return (
        f"there is no python{python_version} on this machine, so the functions come without bytecode: each cold start "
        "compiles what it imports, a quarter of a second of CPU. Install that Python, or choose this one's as the "
        "runtime"
    )
