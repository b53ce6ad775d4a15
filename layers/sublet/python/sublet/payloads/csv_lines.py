"""CSV as RFC 4180 has it, without a header: the columns' names come with the format."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from sublet.errors import PayloadUnreadable
from sublet.payloads.compression import DECOMPRESSED_MAX
from sublet.payloads.json_document import VALUES_MAX

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
    """Python's limit of a field (131,072 characters) is the process', also the user's own code's. The first longer text
    raises it for good: if it were lowered again, another thread's long field would be refused.
    """
    if len(text) > csv.field_size_limit():
        csv.field_size_limit(max(len(text), DECOMPRESSED_MAX))
    return _bounded(csv.reader(io.StringIO(text, newline=""), strict=True))


def _bounded(lines: Iterable[list[str]]) -> list[list[str]]:
    """The lines that are not empty. Raises PayloadUnreadable for more fields than JSON may have values."""
    found, left = [], VALUES_MAX
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            raise PayloadUnreadable(f"not CSV that can be read: more than {VALUES_MAX} fields and lines")
        if line:
            found.append(line)
    return found


def _named(columns: Sequence[str], line: list[str], number: int) -> Line:
    if not columns:
        return line
    if len(line) != len(columns):
        raise PayloadUnreadable(f"line {number}: {len(line)} fields; the columns are {len(columns)}")
    return dict(zip(columns, line, strict=True))
