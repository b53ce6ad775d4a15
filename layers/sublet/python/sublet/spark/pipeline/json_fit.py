"""Checks a value, of JSON or another format, against a Spark type, strictly, so that conversion changes nothing.

A type is given as Spark's JSON for it (`df.schema.jsonValue()`). Text does not become a number, nor a number text. A
number that would lose digits does not fit. A timestamp needs a zone, or must have none, depending on its type. Fields
that are not in the schema are ignored. Formats with types of their own give floats, bytes, decimals, dates and moments,
which JSON has as text or not at all.

A field TIMESTAMP with the comment `epoch seconds`, `epoch milliseconds` or `epoch microseconds` is a number.
A field VARIANT takes any JSON value but null, which is the field's own, and becomes JSON text.
"""

from __future__ import annotations

import binascii
import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import partial
from math import isnan
from typing import Any
from uuid import UUID

from sublet.errors import PayloadUnreadable, SchemaRegistryError, SettingsError
from sublet.payloads.decoding import Decoder
from sublet.payloads.json_document import json_reader
from sublet.payloads.readable_json import as_json
from sublet.spark.pipeline.numerals import Numeral, as_float

SHOWN_MAX = 60
"""How many characters of a value a reason shows."""


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    """Why a value does not fit. `path`: where in the record, such as `items[2].price`; "" is the record itself."""

    path: str
    wanted: str
    found: object

    def __str__(self) -> str:
        return f"{self.path or 'the record'}: {self.wanted} expected, found {_shown(self.found)}"

    def within(self, outer: str) -> TypeMismatch:
        return TypeMismatch(outer + self.path, self.wanted, self.found)


def _shown(found: object) -> str:
    """The beginning of the value as JSON. Stops encoding there, because a value may be large, or deeply nested."""
    shown = ""
    for piece in [found] if type(found) is Numeral else _TEXT_OF.iterencode(found):
        shown += piece
        if len(shown) > SHOWN_MAX:
            return shown[: SHOWN_MAX - 1] + "…"
    return shown


_TEXT_OF = json.JSONEncoder(default=as_json)

Fit = Callable[[Any], Any]
"""Converts a JSON value (never None) to what Arrow takes for the type, or returns a Misfit."""


def fit_of(kind: Any, path: str = "schema") -> Fit:
    """Returns the Fit for a type. Raises SettingsError for a type that JSON cannot represent, at `path` in the
    schema.
    """
    if isinstance(kind, str):
        decimal = re.fullmatch(r"decimal\((\d+), ?(-?\d+)\)", kind)
        fit = _decimal(int(decimal[1]), int(decimal[2])) if decimal else _SIMPLE.get(kind)
    else:
        nested = _NESTED.get(kind.get("type")) if isinstance(kind, Mapping) else None
        fit = nested(kind, path) if nested else None
    if fit is None:
        raise SettingsError(path, kind, f"one of {', '.join(_SIMPLE)}, decimal, struct, array, map")
    return fit


def _text(value: Any) -> Any:
    if type(value) is UUID:
        return str(value)
    if type(value) is not str:
        return TypeMismatch("", "text", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # half a surrogate pair, which JSON can encode but UTF-8 cannot
            return TypeMismatch("", "text without half a surrogate pair", value)
    return value


def _whole(bits: int) -> Fit:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def fit(value: Any) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        return TypeMismatch("", f"a whole number of {bits} bits", value)

    return fit


def _floating(size: str, wanted: str) -> Fit:
    def fit(value: Any) -> Any:
        if type(value) is Numeral or type(value) is int:
            number = as_float(value, size)
            if number is not None:
                return number
        elif type(value) is float and (size == "d" or isnan(value) or _holds(value)):
            return value
        return TypeMismatch("", wanted, value)

    return fit


def _holds(value: float) -> bool:
    """Whether 32 bits hold the number."""
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _decimal(precision: int, scale: int) -> Fit:
    """Also accepts text, which is usual for money. A value with more decimals does not fit, because rounding would
    change it.
    """
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-scale)
    wanted = f"a number of {precision} digits ({scale} of them decimals)"

    def fit(value: Any) -> Any:
        if type(value) in (int, Numeral, Decimal) or (type(value) is str and _NUMBER.fullmatch(value)):
            try:
                return Decimal(value).quantize(unit, context=context)
            except (Inexact, InvalidOperation):
                pass
        return TypeMismatch("", wanted, value)

    return fit


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _truth(value: Any) -> Any:
    return value if type(value) is bool else TypeMismatch("", "true or false", value)


def _day(value: Any) -> Any:
    if type(value) is date:
        return value
    if type(value) is str and re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    return TypeMismatch("", "a date such as 2026-01-31", value)


def _moment(zoned: bool) -> Fit:
    example = "2026-01-31T08:00:00Z" if zoned else "2026-01-31T08:00:00 (no zone)"
    wanted = f"a moment such as {example}"

    def fit(value: Any) -> Any:
        if type(value) is datetime and zoned == (value.tzinfo is not None):
            return value.astimezone(UTC) if zoned else value
        found = _MOMENT.fullmatch(value) if type(value) is str else None
        if found is not None and zoned == (found["zone"] is not None) and _is_in_microseconds(found):
            try:
                moment = datetime.fromisoformat(value)
                return moment.astimezone(UTC) if zoned else moment
            except (ValueError, OverflowError):
                pass
        return TypeMismatch("", wanted, value)

    return fit


_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]([01]\d|2[0-3]):\d\d(:\d\d(\.(?P<fraction>\d+))?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?",
    re.ASCII,
)
"""A moment in RFC 3339, or without seconds, or with a short form of its zone."""


def _is_in_microseconds(moment: re.Match[str]) -> bool:
    """True if the moment has no more than microseconds, which is Spark's resolution."""
    return not (moment["fraction"] or "")[6:].strip("0")


def _since_epoch(unit: str) -> Fit:
    micros_each = Decimal(1_000_000) / EPOCH_UNITS[unit]
    wanted = f"a number of {unit} since 1970, to microseconds"

    def fit(value: Any) -> Any:
        if type(value) in (int, Numeral, float, Decimal):
            try:
                micros = _EXACT.multiply(Decimal(str(value)), micros_each)
                if -_FURTHEST < micros < _FURTHEST and micros == _EXACT.to_integral_value(micros):
                    return EPOCH + timedelta(microseconds=int(micros))
            except (ArithmeticError, ValueError):  # of decimal's too
                pass
        return TypeMismatch("", wanted, value)

    return fit


_EXACT = Context(prec=28, traps=[Inexact, InvalidOperation, Overflow])

_FURTHEST = Decimal(10) ** 18
"""Microseconds: no moment of a calendar of four digits is as far from 1970. `int` of 1e999990 takes a minute."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}


def _bytes(value: Any) -> Any:
    if type(value) is bytes:
        return value
    if type(value) is str:
        try:
            return binascii.a2b_base64(value.encode("ascii"), strict_mode=True)
        except (binascii.Error, UnicodeEncodeError):
            pass
    return TypeMismatch("", "base64", value)


def _variant(value: Any) -> Any:
    """The JSON text of the value. A number that Spark would round does not fit."""
    if value is None or type(value) is bool:
        return json.dumps(value)
    if type(value) is str:
        text = _text(value)
        return text if type(text) is TypeMismatch else json.dumps(text, ensure_ascii=False)
    if type(value) in (int, Numeral, float, Decimal):
        number = str(value)
        return number if _is_held_by_variant(number) else TypeMismatch("", "a number that VARIANT holds", value)
    if type(value) is list:
        parts = [(f"[{index}]", _variant(each)) for index, each in enumerate(value)]
    elif type(value) is dict:
        parts = [(f"[{key!r}]", _member(key, each)) for key, each in value.items()]
    else:
        return TypeMismatch("", "a JSON value", value)
    for path, part in parts:
        if type(part) is TypeMismatch:
            return part.within(path)
    return ",".join(part for _, part in parts).join("[]" if type(value) is list else "{}")


def _member(key: Any, value: Any) -> Any:
    """A key and its value in the text of an object."""
    name, text = _text(key), _variant(value)
    for found in (name, text):
        if type(found) is TypeMismatch:
            return found
    return f"{json.dumps(name, ensure_ascii=False)}:{text}"


def _is_held_by_variant(number: str) -> bool:
    """Whether Spark's VARIANT keeps the number: exactly, as a decimal of 38 digits, or as a float that reads back."""
    if not _NUMBER.fullmatch(number):  # such as NaN
        return False
    whole, _, fraction = number.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    is_decimal = "e" not in number.lower() and len(fraction) <= VARIANT_DIGITS and len(digits) <= VARIANT_DIGITS
    return is_decimal or as_float(Numeral(number), "d") is not None


VARIANT_DIGITS = 38


def _struct(kind: Mapping[str, Any], path: str) -> Fit:
    fields = [
        (field["name"], _fit_of_field(field, f"{path}.{field['name']}"), bool(field.get("nullable", True)))
        for field in kind["fields"]
    ]

    def fit(value: Any) -> Any:
        if type(value) is not dict:
            return TypeMismatch("", "an object", value)
        fitted = {}
        for name, fit_field, nullable in fields:
            part = value.get(name)
            if part is not None:
                part = fit_field(part)
                if type(part) is TypeMismatch:
                    return part.within(f".{name}")
            elif not nullable:
                return TypeMismatch(f".{name}", "a value", None)
            fitted[name] = part
        return fitted

    return fit


def _fit_of_field(field: Mapping[str, Any], path: str) -> Fit:
    """Raises SettingsError for a comment that only looks like a unit of moments."""
    comment = str(field.get("metadata", {}).get("comment", ""))
    if field["type"] != "timestamp" or not comment.lower().startswith("epoch"):
        return fit_of(field["type"], path)
    unit = comment.removeprefix("epoch ")
    if unit not in EPOCH_UNITS:
        raise SettingsError(path, comment, f"epoch and one of {', '.join(EPOCH_UNITS)}")
    return _since_epoch(unit)


def _array(kind: Mapping[str, Any], path: str) -> Fit:
    fit_element, nullable = _fit_of_element(kind["elementType"], f"{path}[]"), bool(kind.get("containsNull", True))

    def fit(value: Any) -> Any:
        if type(value) is not list:
            return TypeMismatch("", "an array", value)
        fitted = []
        for index, element in enumerate(value):
            part = _element(fit_element, element, nullable)
            if type(part) is TypeMismatch:
                return part.within(f"[{index}]")
            fitted.append(part)
        return fitted

    return fit


def _map(kind: Mapping[str, Any], path: str) -> Fit:
    if kind["keyType"] != "string":
        raise SettingsError(path, kind["keyType"], "string: JSON has no other keys")
    fit_value, nullable = _fit_of_element(kind["valueType"], f"{path}{{}}"), bool(kind.get("valueContainsNull", True))

    def fit(value: Any) -> Any:
        if type(value) is not dict:
            return TypeMismatch("", "an object", value)
        fitted = []
        for key, element in value.items():
            for part in (_text(key), _element(fit_value, element, nullable)):
                if type(part) is TypeMismatch:
                    return part.within(f"[{key!r}]")
            fitted.append((key, part))
        return fitted

    return fit


def _fit_of_element(kind: Any, path: str) -> Fit:
    """Raises SettingsError for a VARIANT in it."""
    if _has_variant(kind):
        raise SettingsError(path, "variant", "VARIANT for the whole array or map, which holds any JSON")
    return fit_of(kind, path)


def _has_variant(kind: Any) -> bool:
    if not isinstance(kind, Mapping):
        return bool(kind == "variant")
    parts = [field["type"] for field in kind.get("fields", ())]
    return any(map(_has_variant, [*parts, kind.get("elementType"), kind.get("valueType")]))


def _element(fit: Fit, value: Any, nullable: bool) -> Any:
    if value is None:
        return None if nullable else TypeMismatch("", "a value", None)
    return fit(value)


_SIMPLE: dict[str, Fit] = {
    "string": _text,
    "boolean": _truth,
    "byte": _whole(8),
    "short": _whole(16),
    "integer": _whole(32),
    "long": _whole(64),
    "float": _floating("f", "a number that 32 bits hold"),
    "double": _floating("d", "a number that 64 bits hold"),
    "date": _day,
    "timestamp": _moment(zoned=True),
    "timestamp_ntz": _moment(zoned=False),
    "binary": _bytes,
    "variant": _variant,
}
_NESTED: dict[Any, Callable[[Mapping[str, Any], str], Fit]] = {
    "struct": _struct,
    "array": _array,
    "map": _map,
}


def reader_of(
    schema: Mapping[str, Any], decode: Decoder | None = None, *, has_lines: bool = False
) -> Callable[[bytes], Any]:
    """Converts a record's data to its fitted fields, or to the reason why it does not fit.

    decode     of the records' format; by default JSON's, with each number as it is written
    has_lines  the value is a list, and so is the result: all of its rows fit, or none
    """
    fit = fit_of(schema)
    return partial(_read, decode or json_reader(Numeral), _lines(fit) if has_lines else fit)


def _lines(fit: Fit) -> Fit:
    def fit_each(values: list[Any]) -> Any:
        if not values:  # or the record would be in no table but `raw`, without a reason
            return TypeMismatch("", "at least one line", values)
        fitted = []
        for number, value in enumerate(values, 1):
            part = fit(value)
            if type(part) is TypeMismatch:
                return TypeMismatch(f"line {number}{part.path}", part.wanted, part.found)
            fitted.append(part)
        return fitted

    return fit_each


def _read(decode: Decoder, fit: Fit, data: bytes) -> Any:
    """Reads one record. An error concerns only this record, unless memory or the schema registry fails."""
    try:
        return _fitted(decode, fit, data)
    except (MemoryError, SchemaRegistryError, SettingsError):
        raise
    except Exception as fault:  # noqa: BLE001 - unforeseen errors are the record's too
        return unreadable(fault)


def unreadable(fault: Exception) -> str:
    """The reason for a record that failed in an unforeseen way."""
    return f"cannot be read: {type(fault).__name__}: {str(fault)[:SHOWN_MAX]}".encode("utf-8", "replace").decode()


def _fitted(decode: Decoder, fit: Fit, data: bytes) -> Any:
    try:
        value = decode(data)
    except PayloadUnreadable as why:
        return str(why)
    fitted = fit(value)
    if type(fitted) is TypeMismatch:
        return str(TypeMismatch(fitted.path.removeprefix("."), fitted.wanted, fitted.found))
    return fitted
