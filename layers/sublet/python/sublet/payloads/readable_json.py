"""A decoded value as JSON for people and other programs, whatever the format gave."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

ROOM = 20
"""Levels that are left for what shows a value."""


def json_text(value: Any, indent: int | None = None) -> str:
    """Valid JSON, printable anywhere. A value that JSON does not have becomes text: bytes in base64, moments in ISO
    8601, decimals and NaN as they are written.
    """
    try:
        text = json.dumps(as_json(value), ensure_ascii=False, allow_nan=False, indent=indent)
    except RecursionError:
        return '"nested too deeply to be shown"'
    return text.encode(errors="backslashreplace").decode()


def can_be_shown(value: Any) -> bool:
    """Whether it is not nested too deeply for `json_text` and `as_json`, with some calls and objects around it too."""
    around = value
    for _ in range(ROOM):
        around = [around]
    try:
        as_json(around)
    except RecursionError:
        return False
    return True


def as_json(value: Any) -> Any:
    """The value of JSON's own types alone."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_key(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(each) for each in value]
    return _text(value)


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(as_json(key))


def _text(value: object) -> Any:
    match value:
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return f"{value.total_seconds()}s"
        case Decimal():
            return str(value)
        case _ if hasattr(value, "code") and hasattr(value, "data"):  # MessagePack's extensions
            return {"code": value.code, "data": as_json(bytes(value.data))}
        case _:
            return str(value)
