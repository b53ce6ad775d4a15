"""Where the files are that the constructs deploy but do not import: entry points and lock files."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
IN_WHEEL = PACKAGE / "data"
"""pyproject.toml has hatch put them there in a wheel. An editable install has none of it: it is a checkout."""
CHECKOUT = PACKAGE.parents[1]


def shipped(path: str) -> Path:
    """A file or folder, named as in the repository: `functions/lease_manager`. FileNotFoundError if it is not there."""
    found = next((root / path for root in (IN_WHEEL, CHECKOUT) if (root / path).exists()), None)
    if found is None:
        raise FileNotFoundError(f"this installation of sublet lacks {path}: install it anew")
    return found


def is_checkout() -> bool:
    """Whether this is the repository, with folders for what is made in it."""
    return not IN_WHEEL.exists()
