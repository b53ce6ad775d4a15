"""Old paths of modules, for one release: each names its new path in a DeprecationWarning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module


def forwarded(old: str, new: str) -> Callable[[str], object]:
    """Returns a module's `__getattr__` (PEP 562) that takes every name from the module `new`."""

    def __getattr__(name: str) -> object:  # noqa: N807
        if name == "__all__":
            return import_module(new).__all__
        if name.startswith("__"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(import_module(new), name)
        warn_of_move(old, new, stacklevel=3)
        return value

    return __getattr__


def warn_of_move(old: str, new: str, stacklevel: int = 2) -> None:
    warnings.warn(
        f"{old} is {new} now; the old path goes with the next release", DeprecationWarning, stacklevel=stacklevel
    )
