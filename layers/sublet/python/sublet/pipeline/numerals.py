"""A number of JSON as it is written, and whether a float holds it: JSON's numbers have no size, and a float has 53 bits.

A float fits when it reads back as it was written: with as many digits as the text has, it is the same number. So 0.1 fits, as
does 0.10000000000000001 (C's %.17g of the same float), and 9007199254740993 and 1e-400 do not.
"""

from __future__ import annotations

import struct
from decimal import Decimal, InvalidOperation
from math import isfinite


class Numeral(str):
    """A number with a fraction or an exponent. Not made into one yet: perhaps nobody wants it, and perhaps it cannot be."""

    __slots__ = ()


ALWAYS_KEPT = {"d": 15, "f": 6}
"""Digits that a float of 64 and of 32 bits always gives back (C's DBL_DIG and FLT_DIG)."""


def as_float(value: int | Numeral, size: str) -> float | None:
    """The float, of the struct module's `size` "d" or "f". None: it would be another number, or is none that a float can be."""
    text = value if type(value) is Numeral else str(value)
    try:
        number = float(text) if size == "d" else struct.unpack(size, struct.pack(size, float(text)))[0]
    except OverflowError:
        return None
    is_short = len(text) <= ALWAYS_KEPT[size] and "e" not in text and "E" not in text
    return number if is_short or repr(number) == text or _reads_back(number, text) else None


def _reads_back(number: float, text: str) -> bool:
    digits = len(text.partition("e" if "e" in text else "E")[0].lstrip("-0.").replace(".", "").rstrip("0"))
    if digits == 0 or not isfinite(number):
        return number == 0
    try:
        return Decimal(f"{number:.{digits - 1}e}") == Decimal(text)
    except InvalidOperation:  # an exponent of more digits than a Decimal has
        return False
