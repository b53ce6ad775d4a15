"""Which worlds a test run simulates: new ones with each commit, and for one commit always the same ones."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

SEEDS = 300
FIRST_SEED = 341_229_147
"""Where there is no commit to go by, such as in an archive of the sources."""
FIRST_SEEDS = 10**9
"""The first seed is below: git's hashes spread over all of them."""


def seeds_to_run(environment: Mapping[str, str], commit: str | None) -> range:
    """By the commit's hash, unless SIMULATION_FROM says where to begin; SIMULATION_SEEDS of them."""
    first = environment.get("SIMULATION_FROM") or _first_seed(commit)
    return range(int(first), int(first) + int(environment.get("SIMULATION_SEEDS") or SEEDS))


def commit_of(folder: Path) -> str | None:
    """The hash of the commit that is checked out; None without git, or where it knows of none."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--quiet", "--verify", "HEAD"],  # noqa: S607 -- wherever the machine keeps it
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return asked.stdout.strip() or None


def _first_seed(commit: str | None) -> int:
    return FIRST_SEED if commit is None else int(commit, 16) % FIRST_SEEDS
