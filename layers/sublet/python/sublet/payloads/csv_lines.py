"""CSV as RFC 4180 has it, without a header: the columns' names come with the format."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

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
            lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
        except csv.Error as fault:
            raise PayloadUnreadable(f"not CSV: {fault}") from None
        return [_named(columns, line, number) for number, line in enumerate(lines, 1)]

    return read


def _named(columns: Sequence[str], line: list[str], number: int) -> Line:
    if not columns:
        return line
    if len(line) != len(columns):
        raise PayloadUnreadable(f"line {number}: {len(line)} fields; the columns are {len(columns)}")
    return dict(zip(columns, line, strict=True))
