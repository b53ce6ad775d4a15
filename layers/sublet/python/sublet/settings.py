"""Every setting of a deployment: one frozen, validated value, with a reason for each default.

CDK properties become environment variables (`SUBLET_FAILOVER_TIME=30s`), and those become Settings. A duration in text is
a number and a unit (`200ms`, `10s`, `5m`, `2h`, `1d`); a moment is ISO 8601 with its time zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, get_type_hints

from sublet.errors import SettingsError

PREFIX = "SUBLET_"

LAMBDA_TIMEOUT_MAX = timedelta(minutes=15)
"""Lambda's own limit for one invocation."""

POLL_LIMIT_MAX = 10_000
"""Kinesis: GetRecords returns at most 10,000 records (and 10 MB)."""

POLLS_PER_SECOND_MAX = 5
"""Kinesis: GetRecords calls a second on one shard, shared by all its consumers."""


class Mode(StrEnum):
    """How long a worker keeps a lease: until it has caught up, or from window to window."""

    CATCH_UP = "catch_up"
    CONTINUOUS = "continuous"


class HashRangeFilter(StrEnum):
    """What becomes of a KPL aggregate that holds a user record whose hash key is outside the shard's range.

    `kcl` drops the whole aggregate, as KCL 2 and 3 do: after a reshard the KPL sends those user records again. Other
    aggregators do not send again: with them choose `off`.
    """

    KCL = "kcl"
    OFF = "off"


class StartKind(StrEnum):
    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a shard is first read from, when nothing says otherwise. As text: `LATEST`, or `AT_TIMESTAMP:<ISO 8601>`."""

    kind: StartKind
    at: datetime | None = None

    def __post_init__(self) -> None:
        if (self.kind is StartKind.AT_TIMESTAMP) != (self.at is not None):
            raise SettingsError(
                "start_position", str(self), "AT_TIMESTAMP takes a moment, the other kinds take none"
            )
        if self.at is not None and self.at.tzinfo is None:
            raise SettingsError(
                "start_position", str(self), "the moment needs a time zone, such as 2026-01-31T08:00:00Z"
            )

    @classmethod
    def parse(cls, text: str) -> StartPosition:
        kind, colon, moment = text.partition(":")
        if kind not in StartKind.__members__:
            raise SettingsError(
                "start_position", text, f"one of {', '.join(StartKind)} (AT_TIMESTAMP:<ISO 8601>)"
            )
        try:
            at = datetime.fromisoformat(moment) if colon else None
        except ValueError:
            raise SettingsError("start_position", text, "AT_TIMESTAMP:<ISO 8601 with time zone>") from None
        return cls(StartKind(kind), at)

    def __str__(self) -> str:
        return f"{self.kind}:{self.at.isoformat()}" if self.at else self.kind.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A deployment's settings. Creating one validates it whole; SettingsError names the setting, value and what is allowed."""

    application: str
    """The consumer group. Names the lease table (KCL's own convention) and prefixes the worker ids."""

    stream: str
    """The stream's name (not its ARN)."""

    stream_arn: str | None = None
    """Passed with every Kinesis call when given, which makes policies scoped to one stream work for iterators too."""

    handler: str = ""
    """`module:function`, the user's. Only the lease worker needs it."""

    mode: Mode = Mode.CATCH_UP
    """catch_up costs nothing while nothing arrives; continuous is for low latency and beside a live KCL fleet."""

    start_position: StartPosition = StartPosition(StartKind.TRIM_HORIZON)
    """TRIM_HORIZON loses nothing by default. Only a shard without a lease or leased ancestors starts from here."""

    failover_time: timedelta = timedelta(seconds=30)
    """A lease whose counter stood still this long has lost its owner. In a mixed fleet: the KCL fleet's failoverTimeMillis."""

    heartbeat_interval: timedelta = timedelta(seconds=10)
    """At most a third of failover_time, so that two lost heartbeats do not lose the lease. The seed's 10 s: 6 writes a minute."""

    worker_ids: int = 1
    """How many workers this deployment counts as in KCL's fair share: `<application>-lambda-<n>`, stable for ever."""

    worker_id: str | None = None
    """One worker id of its own instead: for a long-lived process or a Spark query beside the Lambda deployment."""

    leases_per_worker: int = 10
    """Leases one worker Lambda consumes at once. Ten in 512 MB cost a tenth of one in each (see the README's cost table)."""

    leases_to_acquire: int = 1_000
    """The most leases that one worker id is sent for in one tick (the seed's). Large: Lambda has room for all at once."""

    max_leases: int = 10_000
    """The most leases that one worker id holds (KCL's maxLeasesForWorker, the seed's max_leases)."""

    leases_to_steal: int = 1
    """Per worker id and tick, in continuous mode (KCL's maxLeasesToStealAtOneTime). 0 never steals."""

    fair_share: bool = True
    """KCL 2.x: take no more than ceil(leases / workers) while other workers live. False takes whatever is free (the seed)."""

    priority_assignment: bool = True
    """KCL 2.x's enablePriorityLeaseAssignment: a lease idle for over 3 x failover_time is taken whatever the fair share."""

    window: timedelta = timedelta(minutes=14)
    """How long one worker Lambda goes on at most. The default leaves a minute of Lambda's fifteen."""

    window_margin: timedelta = timedelta(seconds=30)
    """Kept free at a window's end for the handler's last batch, the last checkpoints and the releases."""

    windows_per_execution: int = 40
    """Continuous mode: windows before an execution ends and a tick starts afresh: its history stays under 25,000 events."""

    linger: timedelta = timedelta(seconds=2)
    """catch_up: leave after being at the tip this long, also when each poll still brings a few records."""

    poll_interval: timedelta = timedelta(milliseconds=200)
    """Between polls of one shard that brings records: Kinesis allows 5 calls a second (the seed's pace)."""

    idle_poll_interval: timedelta = timedelta(seconds=2)
    """Between polls of a shard that brought none (the seed's pace)."""

    poll_limit: int = POLL_LIMIT_MAX
    """Records asked for in one poll."""

    max_batch_records: int = 10_000
    """User records in one handler call at most (a stream record's user records stay together up to this)."""

    max_bytes_in_flight: int = 96 * 2**20
    """Fetched and not yet handled, in one worker over all its leases. A poll's reply counts as 10 MB before it is seen."""

    max_records_in_flight: int = 400_000
    """The same, in stream records."""

    checkpoint_interval: timedelta = timedelta(seconds=10)
    """Finished batches are checkpointed at most this often, and always at the end; a checkpoint is a heartbeat too."""

    handover_wait: timedelta = timedelta(seconds=10)
    """After stealing from a live owner: time for it to checkpoint late, before the row is read again (the seed's)."""

    handler_attempts: int = 5
    """Calls with the same batch before the lease is given back and the next tick decides. Nothing is ever skipped."""

    handler_backoff: timedelta = timedelta(seconds=1)
    """Before the second call; doubles up to handler_backoff_max."""

    handler_backoff_max: timedelta = timedelta(seconds=30)
    """The longest pause between two calls with the same batch."""

    handler_concurrency: int = 1
    """Handler calls at once in one process. More needs a handler that is safe to call from several threads."""

    hash_range_filter: HashRangeFilter = HashRangeFilter.KCL
    """Drop-in for KCL by default, with a metric for what it dropped."""

    def __post_init__(self) -> None:
        _check_types(self)
        _check_names(self)
        for name, low, high in _NUMBERS:
            if not low <= getattr(self, name) <= high:
                raise SettingsError(name, getattr(self, name), f"a whole number from {low:,} to {high:,}")
        for name, shortest, longest in _DURATIONS:
            if not shortest <= getattr(self, name) <= longest:
                raise SettingsError(
                    name,
                    duration_text(getattr(self, name)),
                    f"{duration_text(shortest)} to {duration_text(longest)}",
                )
        _check_together(self)

    @property
    def lease_table(self) -> str:
        """KCL's convention: the application's name is the table's."""
        return self.application

    @property
    def sightings_table(self) -> str:
        """Not the lease table: one foreign row there stops every Java lease taker of KCL 2.x and 3.0-3.4."""
        return f"{self.application}-sightings"

    @property
    def own_worker_ids(self) -> tuple[str, ...]:
        if self.worker_id is not None:
            return (self.worker_id,)
        return tuple(f"{self.application}-lambda-{n}" for n in range(self.worker_ids))

    @property
    def steals(self) -> bool:
        """catch_up never steals: it would give the lease back seconds later."""
        return self.mode is Mode.CONTINUOUS and self.leases_to_steal > 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read every SUBLET_* variable; one that is no setting is refused, and so is a missing application or stream."""
        known = {PREFIX + f.name.upper(): f.name for f in fields(cls)}
        hints = get_type_hints(cls)
        given: dict[str, Any] = {}
        for variable, text in environment.items():
            if not variable.startswith(PREFIX):
                continue
            if variable not in known:
                raise SettingsError(
                    variable, text, f"no such setting; the settings are {', '.join(sorted(known.values()))}"
                )
            given[known[variable]] = parse_setting(known[variable], hints[known[variable]], text)
        for name in ("application", "stream"):
            if name not in given:
                raise SettingsError(name, None, f"required; set {PREFIX}{name.upper()}")
        return cls(**given)

    def to_environment(self) -> dict[str, str]:
        """The variables that `from_environment` reads this back from."""
        return {
            PREFIX + f.name.upper(): setting_text(v)
            for f in fields(self)
            if (v := getattr(self, f.name)) not in (None, "")
        }


_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_NUMBERS = (
    ("worker_ids", 1, 100),
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
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": _SECOND,
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": _DAY,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


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


def parse_duration(name: str, text: str) -> timedelta:
    """`200ms`, `10s`, `5m`, `2h`, `1d`; a number without its unit is refused rather than guessed."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise SettingsError(name, text, "a number and a unit: 200ms, 10s, 5m, 2h or 1d")
    try:
        return float(match[1]) * _UNITS[match[2]]
    except OverflowError:
        raise SettingsError(name, text, f"at most {timedelta.max.days:,} days") from None


def duration_text(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back exactly: 30s, 200ms, 14m."""
    for unit in ("d", "h", "m", "s"):
        if duration and duration % _UNITS[unit] == timedelta(0):
            return f"{duration // _UNITS[unit]}{unit}"
    milliseconds, microseconds = divmod(duration // timedelta(microseconds=1), 1000)
    return f"{milliseconds}.{microseconds:03}".rstrip("0").rstrip(".") + "ms"


def setting_text(value: object) -> str:
    """A setting's value as `from_environment` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return duration_text(value) if isinstance(value, timedelta) else str(value)


def parse_setting(name: str, kind: Any, text: str) -> object:
    """A setting's text as a value of its declared type, or SettingsError."""
    if kind is timedelta:
        return parse_duration(name, text)
    if kind is StartPosition:
        return StartPosition.parse(text)
    if kind is bool:
        if text not in ("true", "false"):
            raise SettingsError(name, text, "true or false")
        return text == "true"
    if kind is int:
        if not re.fullmatch(r"\d{1,12}", text):
            raise SettingsError(name, text, "a whole number")
        return int(text)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if text not in [member.value for member in kind]:
            raise SettingsError(name, text, f"one of {', '.join(kind)}")
        return kind(text)
    return text
