"""How long the records after a row's checkpoint have waited, from what the session has read and handled."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.session.throughput import averaged
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.row_values import EPOCH

LENGTH = 10
"""Observations of a lease that are kept."""

PACE = timedelta(minutes=1)
"""The shortest time between two observations, so that ten of them span ten minutes even if looks are seconds apart."""

FORGOTTEN_AFTER = timedelta(hours=1)
"""An observation from before a long quiet time says nothing about the present."""

NOTHING, LEAST = timedelta(0), timedelta(milliseconds=1)
"""The least lag of a waiting record, since zero means that nothing waits. A record may seem to arrive later than now,
by its approximate arrival time or by a clock that is behind.
"""

RATES_OVER = timedelta(seconds=30)
"""Rates are measured over at least this time, and half of each measure is the one before."""

SECOND = timedelta(seconds=1)


class HandledSpan(NamedTuple):
    """Consecutive records that are handled. `up_to`: the checkpoint after them."""

    up_to: Checkpoint
    first_arrived_at: datetime
    last_arrived_at: datetime


class LastPage(NamedTuple):
    """`behind`: the lag of the page that was handled last; None if that page was empty and lagged, which does not show
    whether records wait.
    """

    behind: timedelta | None
    polled_at: datetime


class ThroughputRates(NamedTuple):
    """Moving averages as of `at`, when `handled_bytes` and `handled_records` had been handled; None: not measured."""

    at: datetime
    bytes_per_second: float | None = None
    records_per_second: float | None = None
    handled_bytes: int = 0
    handled_records: int = 0

    @classmethod
    def going_on_from(cls, before: LagReport | None, now: datetime) -> ThroughputRates:
        """A new owner's rates before it has handled anything: those of the row's last report, which another clock has
        dated.
        """
        if before is None:
            return cls(now)
        return cls(min(before.at, now), before.bytes_per_second, before.records_per_second)

    def after(self, handled_bytes: int, handled_records: int, now: datetime, interval: timedelta) -> ThroughputRates:
        """Updates once per interval, however often it is called."""
        since = now - self.at
        if since < interval:
            return self
        return ThroughputRates(
            now,
            averaged(self.bytes_per_second, handled_bytes - self.handled_bytes, since),
            averaged(self.records_per_second, handled_records - self.handled_records, since),
            handled_bytes,
            handled_records,
        )

    def reported(self, at: datetime, lag: timedelta | None, arrived_at: datetime | None) -> LagReport:
        size, records = self.bytes_per_second, self.records_per_second
        return LagReport(
            at,
            lag,
            arrived_at,
            None if size is None else round(size),
            None if records is None else round(records, 2),
        )


def lag_of(
    checkpoint: Checkpoint,
    handled: Iterable[HandledSpan],
    in_hand_since: datetime | None,
    last: LastPage | None,
    now: datetime,
) -> tuple[datetime, timedelta | None]:
    """Returns a moment, and how long the first record after the checkpoint had waited at that moment.

    handled        in order; those beyond the checkpoint are handled, but not checkpointed
    in_hand_since  when the first record that is being handled arrived; None if none is being handled
    """
    beyond = next((each.first_arrived_at for each in handled if each.up_to > checkpoint), in_hand_since)
    if beyond is not None:
        return now, max(now - beyond, LEAST)
    if last is None or last.behind is None:
        return now, None
    return (now, last.behind + (now - last.polled_at)) if last.behind else (last.polled_at, NOTHING)


def seen_beside(before: tuple[LagSeen, ...], said: LagReport, checkpoint: Checkpoint) -> tuple[LagSeen, ...]:
    """The last reports, for a row with this checkpoint. They are ordered by arrival time: a report without one would
    look like the shard's beginning, as if the position had been moved back.
    """
    is_known = said.arrived_at is not None or not checkpoint.is_sequence_number
    return seen_after(before, said) if is_known else before


def seen_after(before: tuple[LagSeen, ...], said: LagReport) -> tuple[LagSeen, ...]:
    """The last reports, with this one added if it is time for one and it says something new: an idle shard's row stays
    as it is.
    """
    at = said.at - (said.at - EPOCH) % SECOND
    last = before[-1] if before else None
    if last is not None:
        is_idle = last.lag == NOTHING == said.lag and last.arrived_at == said.arrived_at
        is_early = NOTHING <= at - last.at < PACE  # a report from the future is of a clock that was ahead
        if is_early and last.lag is None and said.lag is not None and last.arrived_at == said.arrived_at:
            before, is_early = before[:-1], False  # it was left empty, and now it is known
        if is_idle or is_early:
            return before
    lag = max(said.lag - said.lag % SECOND, SECOND) if said.lag else said.lag
    recent = [seen for seen in before if NOTHING < at - seen.at <= FORGOTTEN_AFTER]
    return (*recent, LagSeen(at, lag, said.arrived_at))[-LENGTH:]
