"""Keeps a JSON number as written, and checks that a float can hold it: a JSON number may have any size, a float has 53
bits.

A float fits if it reads back as written: with as many digits as the text, it is the same number. So 0.1 fits, as does
0.10000000000000001 (C's %.17g of the same float), but 9007199254740993 and 1e-400 do not.
"""

from __future__ import annotations

import struct
from decimal import Decimal, InvalidOperation
from math import isfinite


class Numeral(str):
    """A number with a fraction or an exponent, kept as text, because it may not be needed, or no float may hold it."""

    __slots__ = ()


ALWAYS_KEPT = {"d": 15, "f": 6}
"""Digits that a float of 64 or 32 bits always preserves (C's DBL_DIG and FLT_DIG)."""


def as_float(value: int | Numeral, size: str) -> float | None:
    """The float, for the struct module's `size` "d" or "f". None if no float is that number."""
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
    except InvalidOperation:  # an exponent with more digits than a Decimal allows
        return False
