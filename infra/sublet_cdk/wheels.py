"""Installs packages for another platform from wheels alone, with uv and without Docker."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sublet.errors import SubletError

MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
"""Lambda's name of an architecture -> the wheels' name."""

# Left out because it differs from build to build, or is useless at run time. The rest of dist-info stays: licences
# must travel with the code, and versions are looked up there.
NOT_SHIPPED = (
    "bin",
    "**/__pycache__",
    ".lock",
    "*.dist-info/RECORD",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
)


class PackagesNotInstalled(SubletError):
    """uv was not found, or could not install the packages. The message has uv's words, on one line."""


@dataclass(frozen=True, slots=True)
class Platform:
    """Where the packages will run.

    architecture      arm64 or x86_64
    python_version    such as 3.13: a binary is for one version
    glibc             the newest wheel tag that it accepts, such as manylinux_2_28
    """

    architecture: str
    python_version: str
    glibc: str

    @property
    def tag(self) -> str:
        return f"{MACHINES[self.architecture]}-{self.glibc}"


def install(
    requirements: Path, platform: Platform, target: Path, *, locked: bool, within: Collection[str] = ()
) -> None:
    """Unpack the wheels of a requirements file into `target`. The same wheels give the same bytes.

    locked: the file names every package, dependencies included, with hashes; otherwise uv resolves them.
    within: requirements such as protobuf>=4.25, which bound the versions of packages that the file may bring along.
    Raises PackagesNotInstalled.
    """
    how = ["--no-deps", "--require-hashes"] if locked else []
    if within:
        how += ["--constraints", "-"]
    command = [
        *(uv(), "pip", "install", "--quiet", *how, "--only-binary", ":all:"),
        *("--python-platform", platform.tag, "--python-version", platform.python_version),
        *("--link-mode", "copy", "--target", str(target), "--requirements", requirements.name),
    ]
    # Run in the file's own folder, so that the file can name a wheel beside it.
    done = subprocess.run(
        command, cwd=requirements.parent, input="\n".join(within), capture_output=True, text=True, check=False
    )
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
        from uv import find_uv_bin  # noqa: PLC0415 -- it comes with the extra cdk, which may be missing
    except ImportError:
        found = shutil.which("uv")
    else:
        found = find_uv_bin()
    if not found:
        raise PackagesNotInstalled("there is no uv here: install sublet with its extra cdk")
    return found
