"""Whole numbers in base 36, as `int(text, 36)` reads them: Python has no way to write them."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def base36(number: int) -> str:
    left, digits = abs(number), ""
    while left or not digits:
        left, digit = divmod(left, 36)
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if number < 0 else digits
