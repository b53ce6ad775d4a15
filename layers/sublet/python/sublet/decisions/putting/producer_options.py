"""What a program may choose about its producer: names, defaults and checks."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from sublet.decisions.pull.pull_request import as_duration
from sublet.decisions.putting.outbox import ProducerRules
from sublet.errors import SettingsError
from sublet.protocol.kpl_format import OVERHEAD
from sublet.protocol.records import RECORD_MAX

AGGREGATE_MAX = 2**20
"""Bytes. By default a stream takes no larger record."""

BUFFERED_MIN = RECORD_MAX
"""The fewest bytes: the largest record has room."""

CONNECTIONS_MAX = 50
"""The most connections, which is as many as the client's pool keeps."""

PATIENCE_MAX = timedelta(hours=24)


class ProducerOptions(TypedDict, total=False):
    """Tells type checkers what may be given by name to a producer. `sublet.Producer` says what each means."""

    aggregation_enabled: bool
    aggregation_max_size: int
    record_max_buffered_time: timedelta | float
    ordered: bool
    rate_limit: int | None
    patience: timedelta | float
    max_connections: int
    max_buffered_bytes: int


def producer_rules(
    *,
    aggregation_enabled: bool = True,
    aggregation_max_size: int = 51_200,
    record_max_buffered_time: timedelta | float = timedelta(milliseconds=100),
    ordered: bool = True,
    rate_limit: int | None = 100,
    patience: timedelta | float = timedelta(seconds=30),
    max_connections: int = 8,
    max_buffered_bytes: int = 64 * 2**20,
) -> ProducerRules:
    """Raises SettingsError. `rate_limit` is a percentage, as the KPL's is."""
    _check("aggregation_max_size", aggregation_max_size, OVERHEAD, AGGREGATE_MAX)
    _check("max_connections", max_connections, 1, CONNECTIONS_MAX)
    _check("max_buffered_bytes", max_buffered_bytes, BUFFERED_MIN, 2**40)
    if rate_limit is not None:
        _check("rate_limit", rate_limit, 1, 10_000)
    for name, given in (("aggregation_enabled", aggregation_enabled), ("ordered", ordered)):
        if not isinstance(given, bool):
            raise SettingsError(name, given, "True or False")
    waits = as_duration("patience", patience)
    if waits > PATIENCE_MAX:
        raise SettingsError("patience", str(waits), f"at most {PATIENCE_MAX}")
    return ProducerRules(
        aggregation_enabled=aggregation_enabled,
        aggregation_max_size=aggregation_max_size,
        record_max_buffered_time=as_duration("record_max_buffered_time", record_max_buffered_time),
        ordered=ordered,
        rate_limit=None if rate_limit is None else rate_limit / 100,
        patience=waits,
        max_connections=max_connections,
        max_buffered_bytes=max_buffered_bytes,
    )


def _check(name: str, given: object, least: int, most: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise SettingsError(name, given, f"a whole number from {least:,} to {most:,}")
