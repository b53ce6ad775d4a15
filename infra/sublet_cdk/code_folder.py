"""A user's folder of code, copied for deployment: what is in it, and nothing from elsewhere."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from sublet.errors import SettingsError

NOT_SHIPPED = ("__pycache__", "*.pyc", "cdk.out", "node_modules")
"""Names. So is every name with a dot before it: `.env` and `.git` may hold what is not to leave this machine."""

EXCLUDE = [f"**/{pattern}" for pattern in NOT_SHIPPED]
"""As CDK's assets take it."""


def copy_code(folder: Path, target: Path, setting: str, dot_files: Collection[str] = ()) -> None:
    """Copy a folder's files into `target`, links as what they lead to. `dot_files` are names that are wanted all the same.

    Raises SettingsError, about `setting`, for a link that leads out of the folder, nowhere, or back to where it is.
    """
    _copy(folder, target, (folder.resolve(),), setting, dot_files)


def _copy(
    folder: Path, target: Path, above: tuple[Path, ...], setting: str, dot_files: Collection[str]
) -> None:
    """`above`: the folders that this one is in, itself included, with every link followed. The first is the whole."""
    target.mkdir(parents=True, exist_ok=True)
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if _left_out(entry.name, dot_files):
                continue
            path = Path(entry.path)
            if entry.is_symlink():
                _check_link(path, above, setting)
            if entry.is_dir():
                _copy(path, target / entry.name, (*above, path.resolve()), setting, dot_files)
            elif entry.is_file():
                shutil.copy2(path, target / entry.name)


def _left_out(name: str, dot_files: Collection[str]) -> bool:
    hidden = name.startswith(".") and name not in dot_files
    return hidden or any(fnmatch.fnmatch(name, pattern) for pattern in NOT_SHIPPED)


def _check_link(link: Path, above: tuple[Path, ...], setting: str) -> None:
    try:
        leads_to = link.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a ring of links, before Python 3.13
        raise SettingsError(
            setting, str(above[0]), f"a folder without {link}, a link that leads nowhere"
        ) from None
    if not leads_to.is_relative_to(above[0]):
        raise SettingsError(
            setting, str(above[0]), f"a folder whose links stay in it; {link} leads to {leads_to}"
        )
    if leads_to in above:
        raise SettingsError(
            setting, str(above[0]), f"a folder without {link}, a link to a folder that it is in"
        )
