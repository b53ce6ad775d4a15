"""Packages for another platform than this machine's, from their wheels alone: by uv, without Docker."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sublet.errors import SubletError

MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
"""Lambda's name of an architecture -> the wheels'."""

# What differs from build to build, or is of no use at run time. The rest of dist-info stays: licences must
# travel with the code, and versions are looked up there.
NOT_SHIPPED = (
    "bin",
    "**/__pycache__",
    ".lock",
    "*.dist-info/RECORD",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
)


class PackagesNotInstalled(SubletError):
    """uv could not be found, or not install what was asked for. The message has its words, on one line."""


@dataclass(frozen=True, slots=True)
class Platform:
    """Where packages are to run.

    architecture      arm64 or x86_64
    python_version    such as 3.13: a binary is for one of them
    glibc             the newest wheels that it takes, such as manylinux_2_28
    """

    architecture: str
    python_version: str
    glibc: str

    @property
    def tag(self) -> str:
        return f"{MACHINES[self.architecture]}-{self.glibc}"


def install(requirements: Path, platform: Platform, target: Path, *, locked: bool) -> None:
    """Unpack the wheels of a requirements file into `target`. The same wheels give the same bytes.

    locked: the file names every package, its dependencies too, with hashes; otherwise uv resolves it.
    Raises PackagesNotInstalled.
    """
    how = ["--no-deps", "--require-hashes"] if locked else []
    command = [
        *(uv(), "pip", "install", "--quiet", *how, "--only-binary", ":all:"),
        *("--python-platform", platform.tag, "--python-version", platform.python_version),
        *("--link-mode", "copy", "--target", str(target), "--requirements", requirements.name),
    ]
    # From the file's own folder, so that a wheel beside it can be named in it.
    done = subprocess.run(command, cwd=requirements.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackagesNotInstalled(
            f"{requirements} cannot be installed for Python {platform.python_version} on {platform.architecture}: "
            f"{' '.join(done.stderr.split())}"
        )
    for pattern in NOT_SHIPPED:
        for path in target.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def uv() -> str:
    """The command of the installed package `uv`, or the one on the PATH."""
    try:
        from uv import find_uv_bin  # noqa: PLC0415 -- it comes with the extra, and may have come otherwise
    except ImportError:
        found = shutil.which("uv")
    else:
        found = find_uv_bin()
    if not found:
        raise PackagesNotInstalled("there is no uv here: install sublet with its extra cdk")
    return found
