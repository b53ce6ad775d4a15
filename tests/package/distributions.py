"""Builds what would be published: the sdist, and the wheel that is built from it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sublet_cdk.wheels import uv

ROOT = Path(__file__).resolve().parents[2]
LOCKED = ROOT / "requirements" / "dev.txt"
LAYER = ROOT / "requirements" / "layer.txt"


@dataclass(frozen=True, slots=True)
class Distributions:
    sdist: Path
    wheel: Path


def build(folder: Path) -> Distributions:
    """Builds both in `folder`. uv builds the wheel from the unpacked sdist, so that it can contain nothing else."""
    constraints = ROOT / "requirements" / "build.txt"
    run(
        [
            uv(),
            "build",
            "--quiet",
            "--build-constraints",
            str(constraints),
            "--out-dir",
            str(folder),
            str(ROOT),
        ]
    )
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Distributions(sdist, wheel)


def environment_with(
    wheel: Path, folder: Path, *extras: str, more: tuple[str, ...] = (), locked: Path = LOCKED
) -> Path:
    """A new virtual environment in `folder` with the wheel, its extras and `more`. Returns its Python. `locked` pins
    versions."""
    python = folder / "bin" / "python"
    run([uv(), "venv", "--quiet", str(folder)])
    what = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    into = ["--python", str(python), "--constraints", str(locked)]
    run([uv(), "pip", "install", "--quiet", *into, what, *more])
    return python


def run(command: list[str], folder: Path | None = None) -> str:
    """Returns its output. Nothing of this repository is on its path; if it fails, its output is the error's text."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
