"""Finds the file and the line at which an import of the user's code failed, for an error message."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

_NOT_THE_USERS = ("stdlib", "platstdlib", "purelib", "platlib")
"""sysconfig's folders: Python's own modules, and installed packages."""


def said_with_place(failure: BaseException) -> str:
    """`KeyError: 'TABLE' (orders.py, line 3)`: the exception, and the innermost line of the user's own code that led to
    it.
    """
    said = failure.msg if isinstance(failure, SyntaxError) else str(failure)
    return f"{type(failure).__name__}: {said}{place_of(failure)}"


def place_of(failure: BaseException) -> str:
    """` (orders.py, line 3)`, to be appended to a text; empty if no line of a file is to blame."""
    if isinstance(failure, SyntaxError) and failure.filename and failure.lineno:
        return f" ({_shown(failure.filename)}, line {failure.lineno})"
    frames = [
        (frame.filename, frame.lineno)
        for frame in traceback.extract_tb(failure.__traceback__)
        if not frame.filename.startswith("<") and not _is_within(frame.filename, (_IMPORTLIB, _OURS))
    ]
    outside = [(name, line) for name, line in frames if not _is_within(name, _installed())]
    for name, line in reversed(outside or frames):
        return f" ({_shown(name)}, line {line})"
    return ""


def _installed() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(Path(paths[kind]) for kind in _NOT_THE_USERS)


def _is_within(name: str, folders: tuple[Path, ...]) -> bool:
    return any(Path(name).is_relative_to(folder) for folder in folders)


def _shown(name: str) -> str:
    """The path to show: relative to the working directory if it is below it."""
    path, here = Path(name), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


_IMPORTLIB = Path(traceback.__file__).parent / "importlib"
_OURS = Path(__file__).parent
