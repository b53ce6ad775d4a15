"""Cuts text to a number of bytes as ASCII JSON, where a character takes up to twelve."""

from __future__ import annotations

import json
from bisect import bisect_right

ROOM_FOR_MISSING = 50
"""Bytes for the note where a text was cut."""


def json_size(text: str) -> int:
    """The text's size as JSON in bytes, without the quotation marks."""
    return len(json.dumps(text)) - 2


def shortened(text: str, most: int) -> str:
    """Cuts the text to `most` bytes: it keeps all of it if it fits, else its beginning and its end. Empty if there is
    no room for those.
    """
    if len(text) <= most and json_size(text) <= most:
        return text
    half = (most - ROOM_FOR_MISSING) // 2
    if half <= 0:
        return ""
    beginning = _beginning(text[:half], half)
    end = _beginning(text[-half:][::-1], half)[::-1]
    missing = len(text) - len(beginning) - len(end)
    return f"{beginning}\n[... {missing} characters ...]\n{end}"


def _beginning(text: str, most: int) -> str:
    lengths = range(len(text) + 1)
    return text[: bisect_right(lengths, most, key=lambda length: json_size(text[:length])) - 1]
