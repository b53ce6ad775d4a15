"""Locates the files that the constructs deploy but do not import: entry points and lock files."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
IN_WHEEL = PACKAGE / "data"
"""hatch puts them there in a wheel (pyproject.toml). An editable install has none of it, because it is a checkout."""
CHECKOUT = PACKAGE.parents[1]


def shipped(path: str) -> Path:
    """A file or folder, named as in the repository: `functions/lease_manager`. Raises FileNotFoundError if it is
    missing."""
    found = next((root / path for root in (IN_WHEEL, CHECKOUT) if (root / path).exists()), None)
    if found is None:
        raise FileNotFoundError(f"this installation of sublet lacks {path}: install it again")
    return found


def is_checkout() -> bool:
    """True in the repository, which has folders for build output."""
    return not IN_WHEEL.exists()
