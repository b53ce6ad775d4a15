"""JSON, strictly: UTF-8, no NaN, no number beyond its type, and if asked no repeated key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from sublet.errors import PayloadUnreadable


def json_reader(number: Callable[[str], Any] | None = None, *, strict: bool = False) -> Callable[[bytes], Any]:
    """Returns a function that reads one document, and raises PayloadUnreadable.

    number  makes the value of a number with a fraction or an exponent; by default a float
    strict  an object with a repeated key is refused; otherwise the last one counts
    """
    decode = json.JSONDecoder(
        parse_constant=_refuse,
        parse_float=number or _finite,
        object_pairs_hook=_each_key_once if strict else None,
    ).decode

    def read(data: bytes) -> Any:
        refuse_too_many(data)
        try:
            return decode(data.decode())
        except UnicodeDecodeError as fault:
            raise PayloadUnreadable(f"not UTF-8: {fault.reason} at byte {fault.start}") from None
        except RecursionError:
            raise PayloadUnreadable("not JSON that can be read: nested too deeply") from None
        except ValueError as fault:  # invalid JSON, or a number with thousands of digits
            raise PayloadUnreadable(f"not JSON: {fault}") from None

    return read


def json_lines_reader(read: Callable[[bytes], Any]) -> Callable[[bytes], list[Any]]:
    """Returns a function that reads a document from each line that is not blank, and raises PayloadUnreadable."""

    def read_lines(data: bytes) -> list[Any]:
        refuse_too_many(data)
        return [_line(read, number, line) for number, line in _lines(data)]

    return read_lines


def refuse_too_many(*documents: bytes) -> None:
    """Raises PayloadUnreadable for more values, in all of the documents, than a process can bear. JSON counts before it
    is parsed: a few kilobytes, when decompressed, can be gigabytes of Python's objects.
    """
    if sum(map(_least_marks, documents)) > VALUES_MAX and sum(map(_marks, documents)) > VALUES_MAX:
        raise PayloadUnreadable(f"not JSON that can be read: more than {VALUES_MAX} commas, brackets and lines")


VALUES_MAX = 2_000_000
"""Of a record: a few hundred megabytes. No more is possible in a record of 2 MB that is not compressed."""


def _least_marks(data: bytes) -> int:
    """The bytes of data that may begin a value, also those in text: no fewer than its values, less one."""
    return len(data) if len(data) <= VALUES_MAX else sum(map(data.count, (b",", b"[", b"{", b"\n")))


def _marks(data: bytes) -> int:
    """The same without those in text."""
    return _least_marks(_TEXT.sub(b"", data))


_TEXT = re.compile(rb'"[^"\\]*(?:\\.?[^"\\]*)*(?:"|\Z)', re.DOTALL)
"""Or what is left of a text that does not end, so that each byte is looked at once."""


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _line(read: Callable[[bytes], Any], number: int, line: bytes) -> Any:
    try:
        return read(line)
    except PayloadUnreadable as why:
        raise PayloadUnreadable(f"line {number}: {why}") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"the key {_repeated(key for key, _ in pairs)!r:.100} is repeated")
    return found


def _repeated(keys: Iterable[str]) -> str:
    """The first key that was there before; "" if there is none."""
    seen = set[str]()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return ""
