"""The calls to Kinesis that change a stream to what is wanted, in the order in which it accepts them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TypedDict

import msgspec
from msgspec import Struct

from sublet.decisions.load.resharding import Merge, Split
from sublet.decisions.session.read_position import LONGEST_RETENTION, SHORTEST_RETENTION
from sublet.errors import SettingsError
from sublet.protocol.records import RECORD_MAX
from sublet.protocol.stream_info import MAX_RECORD_KIB, StreamInfo, StreamMode
from sublet.settings.definition import AllowedValues, Definition, OtherName, any_of_kind, between


class SetMode(Struct, frozen=True):
    mode: StreamMode


class SetShards(Struct, frozen=True):
    """Sets the number of shards, evenly, by splits and merges."""

    count: int


class SetRetention(Struct, frozen=True):
    """Kinesis has one call for a longer and one for a shorter retention."""

    retention: timedelta
    is_longer: bool


class SetMaxRecordKib(Struct, frozen=True):
    """Kinesis' MaxRecordSizeInKiB: of a record's data and partition key."""

    kib: int


class SetKey(Struct, frozen=True):
    """Encrypt records from now on."""

    key: str


class RemoveKey(Struct, frozen=True):
    key: str


Change = SetMode | SetShards | SetRetention | SetMaxRecordKib | SetKey | RemoveKey | Split | Merge


class StreamOptions(TypedDict, total=False):
    """The fields of `DesiredStream`."""

    shards: int | None
    mode: StreamMode | None
    retention: timedelta | None
    key: str | None
    max_record_kib: int | None


class DesiredStream(Struct, frozen=True):
    """What the program wants of a stream; None leaves a value unchanged. `retention`: whole hours, a day to a year.
    `key`: a KMS key's id, ARN or alias; empty for no encryption. `max_record_kib`: 1,024 to 10,240.
    """

    shards: int | None = None
    mode: StreamMode | None = None
    retention: timedelta | None = None
    key: str | None = None
    max_record_kib: int | None = None


def _is_retention(retention: timedelta) -> bool:
    is_whole = retention % timedelta(hours=1) == timedelta(0)
    return is_whole and SHORTEST_RETENTION <= retention <= LONGEST_RETENTION


_OPTIONS = tuple(
    Definition(name, kind, None, allowed, None, OtherName())
    for name, kind, allowed in (
        ("shards", int, AllowedValues("at least 1", lambda count: count >= 1)),
        ("mode", StreamMode, any_of_kind(StreamMode)),
        ("retention", timedelta, AllowedValues("whole hours, 24 hours to 365 days", _is_retention)),
        ("key", str, any_of_kind(str)),
        ("max_record_kib", int, between(MAX_RECORD_KIB, RECORD_MAX // 1024)),
    )
)


def check_wanted(wanted: DesiredStream) -> None:
    """Raises SettingsError for options that no stream can have."""
    for option in _OPTIONS:
        option.check(getattr(wanted, option.name))
    if wanted.shards is not None and wanted.mode is StreamMode.ON_DEMAND:
        raise SettingsError(
            "shards", wanted.shards, "not allowed: an on-demand stream sets its number of shards by itself"
        )


def changes(now: StreamInfo, wanted: DesiredStream) -> tuple[Change, ...]:
    """The calls needed; none for what is as wanted already. Raises SettingsError for what no stream can have.

    The mode is first, since only a provisioned stream's shards can be set.
    """
    mode = now.mode if wanted.mode is None else wanted.mode
    check_wanted(msgspec.structs.replace(wanted, mode=mode))
    planned: list[Change] = [] if mode is now.mode else [SetMode(mode)]
    if wanted.shards is not None:
        planned += [SetShards(count) for count in _shard_counts(now.open_shards, wanted.shards)]
    if wanted.retention not in (None, now.retention):
        assert wanted.retention is not None
        planned.append(SetRetention(wanted.retention, wanted.retention > now.retention))
    if wanted.max_record_kib not in (None, now.max_record_kib):
        assert wanted.max_record_kib is not None
        planned.append(SetMaxRecordKib(wanted.max_record_kib))
    if wanted.key is not None and wanted.key != (now.key or ""):
        planned.append(SetKey(wanted.key) if wanted.key else RemoveKey(now.key or ""))
    return tuple(planned)


def _shard_counts(count: int, wanted: int) -> Iterator[int]:
    """Kinesis at most doubles or halves the count in one call."""
    while count != wanted:
        count = min(wanted, 2 * count) if wanted > count else max(wanted, -(-count // 2))
        yield count
