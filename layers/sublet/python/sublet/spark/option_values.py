"""Parses option values. Errors are SettingsError with the option's name and what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from sublet.errors import MalformedCheckpoint, SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.settings import HashRangeFilter, StartKind, StartPosition, parse_duration, parse_setting

_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)


def not_empty(name: str, text: str) -> str:
    if not text.strip():
        raise SettingsError(name, text, "not empty")
    return text


def flag(name: str, text: str) -> object:
    return parse_setting(name, bool, text.lower())


def count(name: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**62:
        raise SettingsError(name, text, "a whole number from 1 on")
    return int(text)


def duration(name: str, text: str) -> timedelta:
    lasts = parse_duration(name, text)
    if lasts <= timedelta(0):
        raise SettingsError(name, text, "longer than 0")
    return lasts


def position(name: str, text: str) -> StartPosition:
    try:
        return StartPosition.parse(text)
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


def hash_range_filter(name: str, text: str) -> object:
    return parse_setting(name, HashRangeFilter, text)


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
