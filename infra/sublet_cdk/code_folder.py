"""Copies a user's code folder for deployment, with its files and nothing from outside it."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from sublet.errors import SettingsError

NOT_SHIPPED = ("__pycache__", "*.pyc", "cdk.out", "node_modules")
"""File names to leave out. Names with a leading dot are left out too, because `.env` and `.git` may hold secrets."""

EXCLUDE = [f"**/{pattern}" for pattern in NOT_SHIPPED]
"""The same patterns in the form of CDK's assets."""


def copy_code(folder: Path, target: Path, setting: str, dot_files: Collection[str] = ()) -> None:
    """Copy a folder's files into `target`; links are replaced by their targets. `dot_files` are copied despite their
    names.

    Raises SettingsError, about `setting`, for a link that leads out of the folder, nowhere, or back to a folder above
    it.
    """
    _copy(folder, target, (folder.resolve(),), setting, dot_files)


def _copy(folder: Path, target: Path, above: tuple[Path, ...], setting: str, dot_files: Collection[str]) -> None:
    """`above`: this folder and those that contain it, with links resolved. The first is the whole folder."""
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
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        raise SettingsError(setting, str(above[0]), f"a folder without {link}, a link that leads nowhere") from None
    if not leads_to.is_relative_to(above[0]):
        raise SettingsError(setting, str(above[0]), f"a folder whose links stay in it; {link} leads to {leads_to}")
    if leads_to in above:
        raise SettingsError(setting, str(above[0]), f"a folder without {link}, a link to a folder that it is in")
