"""How fast alarms are: their thresholds, and how their periods follow from how far ticks are apart.

Whatever stands still is to reach a person within 15 minutes, or three ticks where that is longer. So an alarm's period, a span,
always has a tick in it, and trouble that lasts is in two spans in a row. An age (of a checkpoint, of a call) has lasted by
itself, and one figure is enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from sublet.errors import SettingsError

MINUTE = timedelta(minutes=1)
NOTICED_WITHIN = timedelta(minutes=15)
NOTICED_WITHIN_TICKS = 3
SPAN_MIN = timedelta(minutes=5)
SPAN_MAX = timedelta(days=1)
TICK_JITTER = 1.2
"""A span is so much longer than the ticks are apart: none is without one."""
STALLED_PART, UNREAD_PART = 0.4, 0.3
"""Of the time within which a person is to know. A worker may come a whole gap after the records did, and then tells each minute.
What nobody reads is seen by ticks alone: the first may come a gap later too, and only from then on the age is known.
"""

RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


@dataclass(frozen=True, slots=True)
class AlarmThresholds:
    """When the alarms fire. Minutes are rounded up to whole spans: five minutes each, or what has a tick in it always, and two
    of them at least.
    """

    lag_millis: int = 0
    """The least lagging shard's lag. Above 0: not even one shard reaches its tip."""
    lag_minutes: int = 15
    """Longer than a usual catch-up after a reshard or a deployment."""
    unread_minutes: int | None = None
    """How long a shard may have records and nobody to read them. By default 4.5, or nine tenths of what two ticks are apart."""
    owner_stall_minutes: int | None = None
    """How long a lease that is heartbeaten may stand still while records wait, beyond this deployment's checkpoint_interval. By
    default 6, or nine tenths of what two ticks are apart."""
    stall_minutes: int | None = None
    """How long a shard with records may stand still that a worker holds. By default 6, or 1.2 ticks where that is longer."""
    handler_call_minutes: int | None = None
    """How long a call of the handler may last. The same default."""
    unfinished_minutes: int | None = None
    """How long a batch may be kept that the handler checkpoints by hand. The same default."""
    throttled_polls: int = 10
    """Polls of one shard refused in a row: some 40 seconds without a record."""
    unclaimed_minutes: int = 10
    hot_shard_ratio: float = 4
    """The busiest shard's bytes in one report, against the average report."""
    hot_shard_bytes: int = 6_000_000
    """Below this the busiest shard is not hot but the others are idle. A tenth of what a shard takes in a
    minute.
    """
    hot_shard_minutes: int = 15
    data_loss_minutes: int = 10
    silence_minutes: int = 10
    """Without a tick, or without a worker that holds a lease."""
    handler_failing_minutes: int = 10
    handler_failures: int = 1
    """In each span. One that the next call made up for is no reason to wake anybody, not even twice in an hour."""
    handler_attempts: int = 20
    """Calls with the same records, in windows before too. A smaller maximum_retry_attempts never gets so far."""
    longest_gap: timedelta | None = None
    """Between two ticks, at most a day. By default as the schedule has it: a rate, or cron's minutes of each hour; any other
    counts as a day. A process ticks each two thirds of failover_time, which counts as a minute."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How the alarms' periods follow from how far ticks are apart."""

    gap: timedelta = MINUTE

    def __post_init__(self) -> None:
        if not timedelta(0) < self.gap <= SPAN_MAX:
            raise SettingsError("longest_gap", str(self.gap), "up to a day between two ticks")

    @property
    def noticed_within(self) -> timedelta:
        return max(NOTICED_WITHIN, NOTICED_WITHIN_TICKS * self.gap)

    @property
    def span(self) -> int:
        """In minutes."""
        return ceil(min(max(SPAN_MIN, TICK_JITTER * self.gap), SPAN_MAX) / MINUTE)

    def spans(self, minutes: int) -> int:
        return max(2, ceil(minutes / self.span))

    def stall_millis(self, minutes: int | None) -> float:
        return self._millis(STALLED_PART, minutes)

    def unread_millis(self, minutes: int | None) -> float:
        return self._millis(UNREAD_PART, minutes)

    def owner_stall_millis(self, minutes: int | None) -> float:
        """As late as the promise allows: a KCL worker may checkpoint each five minutes. Ticks further apart than two minutes see
        it a second time too late for that."""
        part = STALLED_PART if self.gap <= 2 * MINUTE else UNREAD_PART
        return self._millis(part, minutes)

    def _millis(self, part: float, minutes: int | None) -> float:
        longest = self.noticed_within * part if minutes is None else minutes * MINUTE
        return longest / timedelta(milliseconds=1)


def gap_of(schedule: str) -> timedelta:
    """Of an EventBridge expression. Of cron's only `*` and `0/n` minutes of each hour are read; any other may leave a day out."""
    if rate := RATE.fullmatch(schedule):
        return min(int(rate[1]) * timedelta(**{f"{rate[2]}s": 1}), SPAN_MAX)
    minutes = re.fullmatch(r"cron\((?:(\*)|(?:\*|0)/(\d+)|[\d,-]+) \* [*?] \* [*?] \*\)", schedule)
    if minutes is None:
        return SPAN_MAX
    step = 1 if minutes[1] else int(minutes[2] or 60)
    return step * MINUTE
