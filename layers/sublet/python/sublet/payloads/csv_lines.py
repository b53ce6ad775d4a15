"""CSV as RFC 4180 has it, without a header: the columns' names come with the format."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from threading import Lock

from sublet.errors import PayloadUnreadable

Line = dict[str, str] | list[str]


def csv_reader(columns: Sequence[str] = ()) -> Callable[[bytes], list[Line]]:
    """Returns a function that reads lines, and raises PayloadUnreadable. Every line has all columns."""

    def read(data: bytes) -> list[Line]:
        try:
            text = data.decode()
        except UnicodeDecodeError as fault:
            raise PayloadUnreadable(f"not UTF-8: {fault.reason} at byte {fault.start}") from None
        try:
            lines = _lines(text)
        except csv.Error as fault:
            raise PayloadUnreadable(f"not CSV: {fault}") from None
        return [_named(columns, line, number) for number, line in enumerate(lines, 1)]

    return read


def _lines(text: str) -> list[list[str]]:
    """Python's limit of a field (131,072 characters) is the process', so it is raised for a long text alone, and only
    while that is read. Other threads' fields may be as long meanwhile.
    """
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    with _LIMIT_IS_USUAL:
        usual = csv.field_size_limit()
        if len(text) > usual:
            csv.field_size_limit(len(text))
            try:
                return list(filter(None, lines))
            finally:
                csv.field_size_limit(usual)
    return list(filter(None, lines))


_LIMIT_IS_USUAL = Lock()
"""Held while the limit is another."""


def _named(columns: Sequence[str], line: list[str], number: int) -> Line:
    if not columns:
        return line
    if len(line) != len(columns):
        raise PayloadUnreadable(f"line {number}: {len(line)} fields; the columns are {len(columns)}")
    return dict(zip(columns, line, strict=True))
