"""The limits of a pull, by NATS' ADR-37 ("JetStream Simplification"), and how much to buffer for it.

A fetch wants a number of records and no more; a consume keeps a buffer that is refilled once it is down to a threshold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, TypedDict

from sublet.decisions.session.read_position import LONGEST_RETENTION
from sublet.errors import SettingsError

MAX_RECORDS = 500
"""The default buffer of a consume."""

EXPIRES = timedelta(seconds=30)
EXPIRES_MIN = timedelta(seconds=1)
IDLE_HEARTBEAT_MIN = timedelta(milliseconds=500)
IDLE_HEARTBEAT_MAX = timedelta(seconds=30)

ANY_NUMBER = 1_000_000
"""Practically no limit on records, if only bytes are limited."""


@dataclass(frozen=True, slots=True)
class PullSize:
    """A number of records, and the bytes of their data and partition keys, as Kinesis counts them."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: PullSize) -> PullSize:
        return PullSize(self.records + other.records, self.bytes + other.bytes)


NOTHING = PullSize()


Ends = Sequence[int]
"""Cumulative bytes of consecutive records: of no record, of the first, of the first two, and so on."""


def fitting(ends: Ends, at: int, room: int) -> int:
    """How many records from `at` on have at most `room` bytes together."""
    return max(bisect_right(ends, ends[at] + room) - 1 - at, 0)


class BufferSize(Protocol):
    """A size, or a running count of one."""

    @property
    def records(self) -> int: ...

    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BufferDemand:
    """How much may be buffered, and when to refill. `max_bytes` None: unlimited."""

    max_records: int = 0
    max_bytes: int | None = None
    threshold_records: int = 0
    threshold_bytes: int = 0

    def takes(self, ends: Ends, at: int, buffered: BufferSize) -> int:
        """How many more records may be buffered, if they are those from `at` on. At least one if the buffer is empty,
        or a record larger than the buffer would block it for ever.
        """
        records = self.max_records - buffered.records
        if self.max_bytes is not None:
            records = min(records, fitting(ends, at, self.max_bytes - buffered.bytes))
        is_at_least_one = buffered.records == 0 and self.max_records > 0
        return max(records, 1 if is_at_least_one else 0)

    def is_low(self, buffered: BufferSize) -> bool:
        """Whether the buffer is down to the threshold of records or, if bytes are limited, of bytes."""
        if self.max_bytes is not None and buffered.bytes <= self.threshold_bytes:
            return True
        return buffered.records <= self.threshold_records

    def before_low(self, ends: Ends, at: int, buffered: BufferSize) -> int:
        """How many records may be taken out before it is low, if they are those from `at` on."""
        records = buffered.records - self.threshold_records - 1
        if self.max_bytes is not None:
            records = min(records, fitting(ends, at, buffered.bytes - self.threshold_bytes - 1))
        return max(records, 0)


NO_DEMAND = BufferDemand()


def together(demands: Iterable[BufferDemand]) -> BufferDemand:
    """The sum of concurrent pulls. Bytes are limited only if every pull limits them."""
    all_of_them = list(demands)
    if len(all_of_them) == 1:
        return all_of_them[0]
    unbounded = any(demand.max_bytes is None for demand in all_of_them)
    return BufferDemand(
        sum(demand.max_records for demand in all_of_them),
        None if unbounded else sum(demand.max_bytes or 0 for demand in all_of_them),
        sum(demand.threshold_records for demand in all_of_them),
        sum(demand.threshold_bytes for demand in all_of_them),
    )


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """A fetch's limits and what it has received. `is_full`: the next record would not fit."""

    max_records: int
    max_bytes: int | None
    given: PullSize = NOTHING
    is_full: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_full or self.given.records >= self.max_records

    def demand(self) -> BufferDemand:
        """What the fetch still wants. The threshold has the same size, so the buffer is refilled at any time."""
        records = 0 if self.is_over else self.max_records - self.given.records
        left = None if self.max_bytes is None else max(self.max_bytes - self.given.bytes, 1)
        return BufferDemand(records, left, records, left or 0)

    def give(self, record_bytes: int) -> FetchProgress | None:
        """Adds one more record. Returns None if it would exceed max_bytes: then the fetch is over. The first record is
        given whatever its size.
        """
        is_too_much = self.max_bytes is not None and self.given.bytes + record_bytes > self.max_bytes
        if is_too_much and self.given.records > 0:
            return None
        given = self.given + PullSize(1, record_bytes)
        return replace(self, given=given, is_full=self.max_bytes is not None and given.bytes >= self.max_bytes)


def fetch_of(max_records: int | None, max_bytes: int | None) -> FetchProgress:
    """Raises SettingsError if neither is given."""
    if max_records is None and max_bytes is None:
        raise SettingsError("max_records", None, "required unless max_bytes is given: a fetch needs one of them")
    _check_positive(max_records=max_records, max_bytes=max_bytes)
    return FetchProgress(ANY_NUMBER if max_records is None else max_records, max_bytes)


def consume_of(
    max_records: int | None = None,
    max_bytes: int | None = None,
    threshold_records: int | None = None,
    threshold_bytes: int | None = None,
) -> BufferDemand:
    """A consume's buffer, limited either in records or in bytes, and refilled at half by default. Raises
    SettingsError.
    """
    if max_records is not None and max_bytes is not None:
        raise SettingsError("max_bytes", max_bytes, "allowed only without max_records: a buffer has one limit")
    if threshold_bytes is not None and max_bytes is None:
        raise SettingsError("threshold_bytes", threshold_bytes, "allowed only with max_bytes")
    _check_positive(max_records=max_records, max_bytes=max_bytes)
    records = max_records or (MAX_RECORDS if max_bytes is None else ANY_NUMBER)
    in_bytes = max_bytes or 0
    return BufferDemand(
        records,
        max_bytes,
        _threshold("threshold_records", threshold_records, 0 if in_bytes else records, records),
        _threshold("threshold_bytes", threshold_bytes, in_bytes, in_bytes),
    )


class BufferOptions(TypedDict, total=False):
    """The arguments of `messages` and `consume`: the buffer's limit in records or bytes, its threshold, and the
    durations.
    """

    max_records: int | None
    max_bytes: int | None
    threshold_records: int | None
    threshold_bytes: int | None
    expires: timedelta | float
    idle_heartbeat: timedelta | float | None


def buffering_of(
    *,
    expires: timedelta | float = EXPIRES,
    idle_heartbeat: timedelta | float | None = None,
    **maxima: int | None,
) -> tuple[BufferDemand, PullTimeouts]:
    """Reads the arguments in `BufferOptions`. Raises TypeError for any other."""
    unknown = maxima.keys() - BufferOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(BufferOptions.__annotations__)
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}: messages and consume take {known}")
    return consume_of(**maxima), patience_of(expires, idle_heartbeat)


def checked_parallelism(partition_by_key: int) -> int:
    """The number of parallel calls. Raises SettingsError."""
    _check_positive(partition_by_key=partition_by_key)
    return partition_by_key


def _threshold(name: str, given: int | None, of: int, at_most: int) -> int:
    if given is None:
        return of // 2
    if not is_whole(given) or not 0 <= given <= at_most:
        raise SettingsError(name, given, f"a whole number from 0 to {at_most}, the limit that it belongs to")
    return given


def _check_positive(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and (not is_whole(value) or value < 1):
            raise SettingsError(name, value, "a whole number, at least 1")


def is_whole(given: object) -> bool:
    """Whether it is an int other than True and False."""
    return isinstance(given, int) and not isinstance(given, bool)


@dataclass(frozen=True, slots=True)
class PullTimeouts:
    """The durations of a pull.

    expires         how long one pull waits for records
    idle_heartbeat  twice as long without a sign of life is reported as an event
    """

    expires: timedelta
    idle_heartbeat: timedelta


def patience_of(expires: timedelta | float = EXPIRES, idle_heartbeat: timedelta | float | None = None) -> PullTimeouts:
    """Reads seconds, or timedeltas. The default heartbeat is half of expires, within its limits. Raises
    SettingsError.
    """
    whole = as_duration("expires", expires)
    if whole < EXPIRES_MIN:
        raise SettingsError("expires", str(whole), f"at least {EXPIRES_MIN}")
    if idle_heartbeat is None:
        return PullTimeouts(whole, min(max(whole / 2, IDLE_HEARTBEAT_MIN), IDLE_HEARTBEAT_MAX))
    heartbeat = as_duration("idle_heartbeat", idle_heartbeat)
    if not IDLE_HEARTBEAT_MIN <= heartbeat <= IDLE_HEARTBEAT_MAX:
        raise SettingsError("idle_heartbeat", str(heartbeat), f"{IDLE_HEARTBEAT_MIN} to {IDLE_HEARTBEAT_MAX}")
    return PullTimeouts(whole, heartbeat)


def as_duration(name: str, given: timedelta | float) -> timedelta:
    """Seconds, or a timedelta as it is. Raises SettingsError for another type, a negative duration, or one longer than
    Kinesis keeps records.
    """
    try:
        lasts = given if isinstance(given, timedelta) else timedelta(seconds=_number(given))
    except (TypeError, ValueError, OverflowError):  # text, no number, or out of range for timedelta
        raise SettingsError(name, given, "a number of seconds, or a timedelta") from None
    if lasts < timedelta(0):
        raise SettingsError(name, given, "not negative")
    if lasts > LONGEST_RETENTION:
        raise SettingsError(name, str(lasts), f"at most {LONGEST_RETENTION.days} days")
    return lasts


def _number(given: float) -> float:
    if isinstance(given, bool):
        raise TypeError(given)
    return given
