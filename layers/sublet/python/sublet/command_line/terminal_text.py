"""Makes text safe to show in a terminal."""

from __future__ import annotations

import logging


def harmless(text: str) -> str:
    """Escapes the control characters of a text, except its line breaks."""
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in text)


def printable(text: str) -> str:
    """Escapes control characters, which could move a terminal's cursor: anyone may have written the row."""
    return text if text.isprintable() else repr(text)


class HarmlessLines(logging.Formatter):
    """Formats log lines for a terminal. An exception's text, for one, may have control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))
