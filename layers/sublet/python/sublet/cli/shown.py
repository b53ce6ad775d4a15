"""Makes values safe to show in a terminal."""

from __future__ import annotations

import logging
from datetime import timedelta

from sublet.operate.shown import age_text, failure_text, lag_text, shortened, time_text

__all__ = [
    "HOME_AND_CLEAR",
    "LOOKS_EVERY",
    "HarmlessLines",
    "age_text",
    "failure_text",
    "harmless",
    "lag_text",
    "printable",
    "shortened",
    "time_text",
]


LOOKS_EVERY = timedelta(seconds=10)
"""How often a command looks with --watch."""
HOME_AND_CLEAR = "\x1b[H\x1b[J"


def harmless(text: str) -> str:
    """Escapes the control characters of a text, except its line breaks."""
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in text)


class HarmlessLines(logging.Formatter):
    """Formats log lines for a terminal. An exception's text, for one, may have control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))


def printable(text: str) -> str:
    """Escapes control characters, which could move a terminal's cursor: anyone may have written the row."""
    return text if text.isprintable() else repr(text)
