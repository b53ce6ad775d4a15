"""Parses option values, in any case where that makes no difference: Spark's users write `latest` and `TRUE`. Errors are
SettingsError with the option's name and what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from sublet.errors import MalformedCheckpoint, SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.settings import StartKind, StartPosition, parse_duration, parse_setting
from sublet.settings.text import LONGEST

_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)

_PART_OF_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s+([a-z]+?)s?(?=\s|$)\s*", re.ASCII)
_UNITS_OF_INTERVALS = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d"}
_OF_CALENDAR = frozenset({"month", "quarter", "year"})
_DAYS_OF_WEEK = 7

_POSITIONS = {"EARLIEST": StartKind.TRIM_HORIZON.value}
"""Words of Spark's other sources, and Kinesis' own."""


def not_empty(name: str, text: str) -> str:
    if not text.strip():
        raise SettingsError(name, text, "not empty")
    return text


def flag(name: str, text: str) -> object:
    return parse_setting(name, bool, text.strip().lower())


def count(name: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**62:
        raise SettingsError(name, text, "a whole number from 1 on")
    return int(text)


def one_of(kind: type[StrEnum]) -> Callable[[str, str], object]:
    """Parses one of these lower-case words."""
    return lambda name, text: parse_setting(name, kind, text.strip().lower())


def duration(name: str, text: str) -> timedelta:
    """Parses `5m`, and intervals as Spark's triggers have them: `5 minutes`, `1 hour 30 minutes`."""
    words = text.strip().lower()
    lasts = parse_duration(name, words) if (interval := _interval(name, words)) is None else interval
    if lasts <= timedelta(0):
        raise SettingsError(name, text, "longer than 0")
    return lasts


def _interval(name: str, words: str) -> timedelta | None:
    """Returns None for text that is not an interval of Spark's."""
    rest, lasts = words.removeprefix("interval "), timedelta(0)
    while part := _PART_OF_INTERVAL.match(rest):
        number, unit = part.groups()
        if unit in _OF_CALENDAR:
            raise SettingsError(name, words, f"days or less: a {unit} has no fixed length")
        if unit == "week":
            lasts += _DAYS_OF_WEEK * parse_duration(name, f"{number}d")
        elif unit in _UNITS_OF_INTERVALS:
            lasts += parse_duration(name, f"{number}{_UNITS_OF_INTERVALS[unit]}")
        else:
            return None
        rest = rest[part.end() :]
    if lasts > LONGEST:
        raise SettingsError(name, words, f"at most {LONGEST.days:,} days")
    return None if rest or not words else lasts


def position_text(text: str) -> str:
    """A start position as Kinesis writes it: `latest` is LATEST, and `earliest`, Kafka's word, TRIM_HORIZON."""
    kind, colon, at = text.strip().upper().partition(":")
    return f"{_POSITIONS.get(kind, kind)}{colon}{at}"


def position(name: str, text: str) -> StartPosition:
    try:
        return StartPosition.parse(position_text(text))
    except SettingsError as refusal:
        raise SettingsError(name, text, refusal.allowed) from None


def moment(name: str, text: str) -> StartPosition:
    at = position(name, text)
    if at.kind is not StartKind.AT_TIMESTAMP:
        raise SettingsError(name, text, "AT_TIMESTAMP:<ISO 8601 with time zone>; leave it out to read to the tip")
    return at


def url(name: str, text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(name, text, "a URL with its scheme: https://kinesis.eu-west-1.amazonaws.com")
    return text


def role_arn(name: str, text: str) -> str:
    if not _ROLE_ARN.fullmatch(text):
        raise SettingsError(name, text, "a role's ARN: arn:aws:iam::123456789012:role/orders-reader")
    return text


def external_id(name: str, text: str) -> str:
    """Its errors never show the value."""
    if not _EXTERNAL_ID.fullmatch(text):
        raise SettingsError(name, "...", "2 to 1224 of letters, digits and +=,.@:/-_ (as IAM has it)")
    return text


def session_name(name: str, text: str) -> str:
    if not _SESSION_NAME.fullmatch(text):
        raise SettingsError(name, text, "2 to 64 of letters, digits and +=,.@-_ (as IAM has it)")
    return text


def checkpoints(name: str, text: str) -> Mapping[str, Checkpoint]:
    """Parses `{"shardId-000000000000": "4968...:3", ...}`: a sequence number, with the sub-sequence number after a
    colon, or a sentinel.
    """
    try:
        pairs = json.loads(text).items()
        return {shard_id: Checkpoint.parse(at[0], int(at[2] or 0)) for shard_id, at in _split(pairs)}
    except (ValueError, AttributeError, MalformedCheckpoint) as fault:
        raise SettingsError(name, text, f"a JSON object of shard ids and checkpoints ({fault})") from None


def _split(pairs: Any) -> list[tuple[str, tuple[str, str, str]]]:
    return [(shard_id, text.partition(":")) for shard_id, text in pairs]
