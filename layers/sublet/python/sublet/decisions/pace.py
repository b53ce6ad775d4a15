"""How often a shard is polled: as fast as Kinesis and the shard's other readers allow while records have come lately, slower
step by step to `idle_poll_interval` when they have not.

An empty poll says little of a shard that gets ten records a second: had it made us wait for two seconds, half of its records
would come a second late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.decisions.chance import Chance
from sublet.protocol.records import Page
from sublet.settings import READ_BYTES_PER_SECOND, Mode, Settings

SLOWS_DOWN = 10
"""A shard that has been quiet for so many seconds is polled each second: who waits for a record waits for a twentieth of the
time that there was none."""

RECOVERS = 0.99
"""By so much, with each poll at the tip, the pace returns to what it was before others were found to read the shard too: to
half in some minute."""

KPL_BYTES = 51_200
"""An aggregate of the KPL, unless it is told otherwise: what a record is taken to be before the shard has brought any."""

ASKED_FOR_AGAIN = timedelta(seconds=1)
"""A quiet shard is polled so soon after the last time, if somebody begins to ask for records meanwhile: a fetch that lasts no
longer than that gets what is there. A fifth of the calls that Kinesis allows a shard."""

SPREAD_BITS = 10
SPREAD = 0.1
"""A poll comes up to a tenth later than it could, never sooner, so that the readers of a shard do not poll in step."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Of one shard's reader. Moments are of the steady clock."""

    records_at: datetime | None = None
    """The last poll that brought records; None: none has."""
    shared: timedelta = timedelta(0)
    """Not faster than this: polls were throttled, so the shard has other readers."""
    is_at_tip: bool = False
    """With the last page."""
    refusals: int = 0
    """In a row."""
    page_bytes: int = 0
    """Of the last page."""
    record_bytes: int = KPL_BYTES
    """Of a stream record, on average, in the last page that brought any."""

    def polled(self, page: Page, at: datetime, settings: Settings) -> Pace:
        """Answered: with this page."""
        is_at_tip = page.millis_behind_latest == 0
        shared = self.shared * RECOVERS if is_at_tip else self.shared
        return Pace(
            at if page.records else self.records_at,
            shared if shared > settings.poll_interval else timedelta(0),
            is_at_tip,
            page_bytes=page.data_bytes,
            record_bytes=max(page.data_bytes // len(page.records), 1) if page.records else self.record_bytes,
        )

    def throttled(self, settings: Settings) -> Pace:
        """Refused: Kinesis allows a shard five calls and 2 MB a second, over all who read it. Behind the tip our own pages use up
        the second, so that it says nothing of others."""
        slower = min(2 * max(self.shared, settings.poll_interval), settings.idle_poll_interval)
        return replace(self, shared=slower if self.is_at_tip else self.shared, refusals=self.refusals + 1)


def next_poll_at(pace: Pace, polled_at: datetime, chance: Chance, settings: Settings) -> datetime:
    """After a poll that was answered: `poll_interval` while behind, or as `poll_bytes` says; at the tip as the pace is."""
    if not pace.is_at_tip:
        paid_for = timedelta(seconds=pace.page_bytes / READ_BYTES_PER_SECOND)
        return polled_at + (
            settings.poll_interval if settings.poll_bytes is None else max(settings.poll_interval, paid_for)
        )
    later = 1 + SPREAD * chance.getrandbits(SPREAD_BITS) / (1 << SPREAD_BITS)
    return polled_at + _interval_at_tip(pace, polled_at, settings) * later


def asked_for_at(pace: Pace, poll_at: datetime, polled_at: datetime, asked_at: datetime | None) -> datetime:
    """When to poll next, where that is due at `poll_at`: sooner at the tip, if somebody has begun to ask for records since the
    last poll. Not where polls were refused: others read the shard too.
    """
    is_asked = asked_at is not None and asked_at > polled_at
    if not is_asked or not pace.is_at_tip or pace.refusals or pace.shared:
        return poll_at
    return min(poll_at, polled_at + ASKED_FOR_AGAIN)


def _interval_at_tip(pace: Pace, now: datetime, settings: Settings) -> timedelta:
    gathering = settings.maximum_batching_window if settings.mode is Mode.CONTINUOUS else timedelta(0)
    if pace.records_at is None:
        return max(settings.idle_poll_interval, gathering)
    slower = max((now - pace.records_at) / SLOWS_DOWN, pace.shared, settings.poll_interval)
    return max(min(slower, settings.idle_poll_interval), gathering)


def records_to_ask_for(pace: Pace, settings: Settings) -> int:
    """In the next poll: half of what may be in flight at most, so that a shard whose few records are being handled leaves room
    for the others' polls.
    """
    most = min(settings.poll_limit, settings.max_records_in_flight // 2)
    if settings.poll_bytes is None:
        return most
    return min(max(settings.poll_bytes // pace.record_bytes, 1), most)


def throttled_until(now: datetime, refusals: int) -> datetime:
    """After the n-th refusal in a row: 1, 2, 4 and then 5 s, for which one reply of 10 MB uses up a shard's 2 MB a second."""
    return now + min(timedelta(seconds=1 << min(refusals - 1, 3)), timedelta(seconds=5))
