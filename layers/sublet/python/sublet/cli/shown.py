"""Values in a terminal."""

from __future__ import annotations

from sublet.operate.shown import age_text, counted, failure_text, shortened, time_text

__all__ = ["age_text", "counted", "failure_text", "harmless", "printable", "shortened", "time_text"]


def harmless(text: str) -> str:
    """A text of several lines, with other control characters escaped."""
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in text)


def printable(text: str) -> str:
    """Escapes control characters, which could move a terminal's cursor: the row may come from anyone."""
    return text if text.isprintable() else repr(text)
