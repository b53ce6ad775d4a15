"""The alarms' thresholds, and how their periods follow from the gap between ticks.

A standstill must reach a person within 15 minutes, or within three ticks if that is longer. So an alarm's period, a
span, always contains a tick, and lasting trouble shows in two spans in a row. An age (of a checkpoint, of a call)
measures duration itself, so one value is enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from sublet.errors import SettingsError
from sublet.metric_names import THROTTLED_POLLS_MAX

MINUTE = timedelta(minutes=1)
NOTICED_WITHIN = timedelta(minutes=15)
NOTICED_WITHIN_TICKS = 3
SPAN_MIN = timedelta(minutes=5)
SPAN_MAX = timedelta(days=1)
TICK_JITTER = 1.2
"""A span is longer than the gap between ticks by this factor, so that none is without a tick."""
STALLED_PART, UNREAD_PART = 0.4, 0.3
"""Parts of the time within which a person must be notified. A worker may start a whole gap after the records arrive,
and then reports each minute. An unread shard is seen by ticks alone: the first may also come a gap later, and its age
is only known from then on."""

RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


@dataclass(frozen=True, slots=True)
class AlarmThresholds:
    """When the alarms fire. Minutes are rounded up to whole spans of five minutes, or of whatever always contains a
    tick, and to at least two of them."""

    lag_millis: int = 0
    """The lag of the shard that lags least. Above 0, not a single shard reaches its tip."""
    lag_minutes: int = 15
    """Longer than a usual catch-up after a reshard or a deployment."""
    unread_minutes: int | None = None
    """How long a shard with records may go unread. By default 4.5, or nine tenths of two ticks' distance."""
    owner_stall_minutes: int | None = None
    """How long a lease that is heartbeaten may stand still while records wait, beyond this deployment's
    checkpoint_interval. By default 6, or nine tenths of two ticks' distance."""
    stall_minutes: int | None = None
    """How long a shard with records that a worker holds may stand still. By default 6, or 1.2 ticks if that is
    longer.
    """
    handler_call_minutes: int | None = None
    """How long a call of the handler may last. The default is that of `stall_minutes`."""
    unfinished_minutes: int | None = None
    """How long a handler that checkpoints manually may keep a batch. The default is that of `stall_minutes`."""
    throttled_polls: int = THROTTLED_POLLS_MAX
    """Refused polls of one shard in a row: about 40 seconds without a record."""
    unclaimed_minutes: int = 10
    hot_shard_ratio: float = 4
    """The busiest shard's bytes in one report, relative to the average report."""
    hot_shard_bytes: int = 6_000_000
    """Below this the busiest shard is not hot; the others are idle. A tenth of what a shard takes in a minute."""
    hot_shard_minutes: int = 15
    data_loss_minutes: int = 10
    silence_minutes: int = 10
    """How long an application may go without a tick, or without a worker that holds a lease."""
    handler_failing_minutes: int = 10
    handler_failures: int = 1
    """How many failures a span may have. A failure that the next call made up for should wake no one, not even twice in
    an hour.
    """
    handler_attempts: int = 20
    """Calls with the same records, including earlier windows. A smaller maximum_retry_attempts never reaches it."""
    stream_lag_hours: float = 12
    """With several streams: how far a shard may be behind before its stream's records are at risk. Half of the 24 hours
    for which Kinesis keeps records unless a stream's retention is longer."""
    by_stream: bool = True
    """With several streams: whether there are alarms that name a stream. They cost $0.30 a month for each."""
    longest_gap: timedelta | None = None
    """The longest gap between two ticks, at most a day. By default that of the schedule: a rate, or cron's minutes of
    each hour; any other schedule counts as a day. A process ticks every two thirds of failover_time, which counts as
    a minute."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How the alarms' periods follow from the gap between ticks."""

    gap: timedelta = MINUTE

    def __post_init__(self) -> None:
        if not timedelta(0) < self.gap <= SPAN_MAX:
            raise SettingsError("longest_gap", str(self.gap), "up to a day between two ticks")

    @property
    def noticed_within(self) -> timedelta:
        return max(NOTICED_WITHIN, NOTICED_WITHIN_TICKS * self.gap)

    @property
    def span(self) -> int:
        return ceil(min(max(SPAN_MIN, TICK_JITTER * self.gap), SPAN_MAX) / MINUTE)

    def spans(self, minutes: int) -> int:
        return max(2, ceil(minutes / self.span))

    def stall_millis(self, minutes: int | None) -> float:
        return self._millis(STALLED_PART, minutes)

    def unread_millis(self, minutes: int | None) -> float:
        return self._millis(UNREAD_PART, minutes)

    def owner_stall_millis(self, minutes: int | None) -> float:
        """Returns the latest age that still gives 15 minutes' notice, because a KCL worker may checkpoint every five
        minutes. With ticks more than two minutes apart, the second sighting would come too late for that.
        """
        part = STALLED_PART if self.gap <= 2 * MINUTE else UNREAD_PART
        return self._millis(part, minutes)

    def _millis(self, part: float, minutes: int | None) -> float:
        longest = self.noticed_within * part if minutes is None else minutes * MINUTE
        return longest / timedelta(milliseconds=1)


def gap_of(schedule: str) -> timedelta:
    """The longest gap between two ticks of an EventBridge expression. Of cron, only `*` and `0/n` minutes of each hour
    are understood; any other expression counts as a day."""
    if rate := RATE.fullmatch(schedule):
        return min(int(rate[1]) * timedelta(**{f"{rate[2]}s": 1}), SPAN_MAX)
    minutes = re.fullmatch(r"cron\((?:(\*)|(?:\*|0)/(\d+)|[\d,-]+) \* [*?] \* [*?] \*\)", schedule)
    if minutes is None:
        return SPAN_MAX
    step = 1 if minutes[1] else int(minutes[2] or 60)
    return step * MINUTE
