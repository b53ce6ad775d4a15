"""How many records a span of a shard has, by a page read at each of its ends. Pure.

The rate of one moment does not say it: a fleet that catches up handles many times what arrives. So the ends must agree,
or the number is not known.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.protocol.records import Page

WINDOW = timedelta(minutes=1)
"""How long before a span's end its second page begins, at most half of the span."""

AGREE_WITHIN = 3
"""If one end has more than so many times the records of the other in the same time, what is between them is not
known.
"""

LEAST_ALIKE = 20
"""Rates of fewer records differ by chance."""


class Sample(NamedTuple):
    """One page, read from a time on. `arrivals`: when its records arrived. `is_all`: nothing follows it yet."""

    start: datetime
    arrivals: tuple[datetime, ...]
    is_all: bool

    @classmethod
    def of(cls, start: datetime, page: Page) -> Sample | None:
        """None for an empty page that lags, which proves nothing."""
        is_all = not page.millis_behind_latest or page.is_shard_end
        if not page.records and not is_all:
            return None
        return cls(start, tuple(record.approximate_arrival_timestamp for record in page.records), is_all)

    def reaches(self, until: datetime) -> bool:
        """Whether the page has all records up to then."""
        return self.is_all or (bool(self.arrivals) and max(self.arrivals) > until)

    def count(self, until: datetime) -> int:
        """The last handled record is repeated by a seek back, and not skipped by one on."""
        return sum(self.start < at <= until for at in self.arrivals)

    def rate(self, until: datetime) -> float | None:
        """Records a second, up to `until` at most. None: it has too few to say."""
        if self.reaches(until):
            span = (until - self.start).total_seconds()
            return self.count(until) / span if span else None
        span = (max(self.arrivals) - self.start).total_seconds()
        return len(self.arrivals) / span if span > 0 else None


def second_start(since: datetime, until: datetime) -> datetime:
    """Where the page at a span's end begins."""
    return until - min(WINDOW, (until - since) / 2)


def records_in(since: datetime, until: datetime, first: Sample | None, second: Sample | None) -> int | None:
    """Returns how many records arrived from `since` to `until`: exactly if the first page has them all. None: not
    known.
    """
    if first is None:
        return None
    if first.reaches(until):
        return first.count(until)
    rates = [None if each is None else each.rate(until) for each in (first, second)]
    if second is None or rates[0] is None or rates[1] is None:
        return None
    low, high = sorted((rates[0], rates[1]))
    is_by_chance = high * WINDOW.total_seconds() < LEAST_ALIKE
    if high > low * AGREE_WITHIN and not is_by_chance:
        return None
    return round((low + high) / 2 * (until - since).total_seconds())
