"""What a Settings may hold: each value by itself, and those that depend on each other. The first that is wrong is named."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.errors import SettingsError
from sublet.settings.text import duration_text

if TYPE_CHECKING:
    from sublet.settings.value import Settings

POLL_LIMIT_MAX = 10_000
"""Kinesis: GetRecords returns at most 10,000 records (and 10 MB)."""

POLLS_PER_SECOND_MAX = 5
"""Kinesis: GetRecords calls a second on one shard, shared by all its consumers."""

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_NUMBERS = (
    ("worker_count", 1, 100),
    ("leases_per_worker", 1, 200),
    ("leases_to_acquire", 1, 10_000),
    ("max_leases", 1, 1_000_000),
    ("leases_to_steal", 0, 1_000),
    ("windows_per_execution", 1, 50),
    ("poll_limit", 1, POLL_LIMIT_MAX),
    ("max_batch_records", 1, 1_000_000),
    ("max_bytes_in_flight", 20 * 2**20, 8 * 2**30),
    ("max_records_in_flight", POLL_LIMIT_MAX, 10_000_000),
    ("handler_attempts", 1, 1_000),
    ("handler_concurrency", 1, 100),
)
_DURATIONS = (
    ("failover_time", 3 * _SECOND, _DAY),
    ("heartbeat_interval", _SECOND, _DAY),
    ("window", _SECOND, 7 * _DAY),
    ("window_margin", timedelta(milliseconds=100), timedelta(minutes=10)),
    ("linger", timedelta(0), _DAY),
    ("poll_interval", _SECOND / POLLS_PER_SECOND_MAX, timedelta(minutes=1)),
    ("idle_poll_interval", _SECOND / POLLS_PER_SECOND_MAX, timedelta(minutes=4)),
    ("checkpoint_interval", timedelta(0), _DAY),
    ("handover_wait", timedelta(0), timedelta(minutes=5)),
    ("handler_backoff", timedelta(0), timedelta(minutes=5)),
    ("handler_backoff_max", timedelta(0), timedelta(minutes=10)),
)


def check(settings: Settings) -> None:
    """For a Settings that is being made: whoever has one need not ask again."""
    _check_types(settings)
    _check_names(settings)
    for name, low, high in _NUMBERS:
        if not low <= getattr(settings, name) <= high:
            raise SettingsError(name, getattr(settings, name), f"a whole number from {low:,} to {high:,}")
    for name, shortest, longest in _DURATIONS:
        if not shortest <= getattr(settings, name) <= longest:
            raise SettingsError(
                name,
                duration_text(getattr(settings, name)),
                f"{duration_text(shortest)} to {duration_text(longest)}",
            )
    _check_together(settings)


def _check_types(settings: Settings) -> None:
    """The text of a mode, or a number of seconds, would otherwise be taken for something else further on."""
    for field in fields(settings):
        value, default = getattr(settings, field.name), field.default
        kind = str if default is MISSING or default is None else type(default)
        is_absent = value is None and default is None
        if not is_absent and (not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool)):
            raise SettingsError(field.name, value, f"a value of type {kind.__name__}")


def _check_names(settings: Settings) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,200}", settings.application):
        raise SettingsError(
            "application", settings.application, "3 to 200 of A-Z a-z 0-9 _ . - (it names a DynamoDB table)"
        )
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", settings.stream):
        hint = "; give the ARN as stream_arn" if ":" in settings.stream else ""
        raise SettingsError("stream", settings.stream, f"a stream name: 1 to 128 of A-Z a-z 0-9 _ . -{hint}")
    if settings.stream_arn is not None and not re.fullmatch(
        rf"arn:[\w-]+:kinesis:[\w-]+:\d{{12}}:stream/{re.escape(settings.stream)}", settings.stream_arn
    ):
        raise SettingsError("stream_arn", settings.stream_arn, f"the ARN of the stream {settings.stream}")
    if settings.worker_id is not None and not re.fullmatch(r"[A-Za-z0-9_.:-]{1,200}", settings.worker_id):
        raise SettingsError("worker_id", settings.worker_id, "1 to 200 of A-Z a-z 0-9 _ . : -")
    if settings.handler and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", settings.handler):
        raise SettingsError("handler", settings.handler, "module:function, such as orders.handler:handle")


def _check_together(settings: Settings) -> None:
    if settings.heartbeat_interval * 3 > settings.failover_time:
        raise SettingsError(
            "heartbeat_interval",
            duration_text(settings.heartbeat_interval),
            f"at most a third of failover_time ({duration_text(settings.failover_time)}), so that two may be lost",
        )
    if settings.window_margin * 2 > settings.window:
        raise SettingsError(
            "window_margin",
            duration_text(settings.window_margin),
            f"at most half of window ({duration_text(settings.window)})",
        )
    if settings.idle_poll_interval < settings.poll_interval:
        raise SettingsError(
            "idle_poll_interval",
            duration_text(settings.idle_poll_interval),
            "at least poll_interval: idle shards are polled less",
        )


def check_window_fits(settings: Settings, function_timeout: timedelta) -> None:
    """Refuse a window that the Lambda would be killed in: the timeout must leave window_margin after it."""
    allowed = function_timeout - settings.window_margin
    if settings.window > allowed:
        raise SettingsError(
            "window",
            duration_text(settings.window),
            f"at most {duration_text(allowed)}: the function's timeout ({duration_text(function_timeout)}) "
            f"less window_margin ({duration_text(settings.window_margin)})",
        )
