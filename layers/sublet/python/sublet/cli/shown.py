"""Values in a terminal."""

from __future__ import annotations

from sublet.operate.shown import age_text, failure_text, time_text

__all__ = ["age_text", "failure_text", "printable", "time_text"]


def printable(text: str) -> str:
    """Escapes control characters, which could move a terminal's cursor: the row may come from anyone."""
    return text if text.isprintable() else repr(text)
