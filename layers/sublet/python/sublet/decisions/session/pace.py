"""How often to poll a shard: as fast as Kinesis and the shard's other readers allow while records come in, and
gradually slower, down to `idle_poll_interval`, while they do not.

An empty poll says little about a shard that gets ten records a second: after a wait of two seconds half of its records
would be a second late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.decisions.time_and_chance import Chance
from sublet.protocol.records import Page
from sublet.settings import READ_BYTES_PER_SECOND, Mode, Settings

SLOWS_DOWN = 10
"""A shard that has been quiet for this many seconds is polled once a second. So a record waits for at most a tenth of
the quiet time before it, on average for a twentieth.
"""

RECOVERS = 0.99
"""Each poll at the tip multiplies by this the slow-down that other readers caused: it halves in about a minute."""

KPL_BYTES = 51_200
"""The KPL's default size of an aggregate: the assumed record size before the shard has delivered any."""

ASKED_FOR_AGAIN = timedelta(seconds=1)
"""How soon after the last poll a quiet shard is polled when a program begins to ask for records, so that even a short
fetch gets what is there. This uses a fifth of the calls that Kinesis allows for a shard.
"""

SPREAD_BITS = 10
SPREAD = 0.1
"""Each poll comes up to a tenth late, never early, so that a shard's readers do not poll in step."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of one shard's reader. Times are of the steady clock."""

    records_at: datetime | None = None
    """The last poll that returned records; None if none has."""
    shared: timedelta = timedelta(0)
    """The shortest interval allowed: polls were throttled, so the shard has other readers."""
    is_at_tip: bool = False
    """Whether the last page was at the tip."""
    refusals: int = 0
    """Refused polls in a row."""
    page_bytes: int = 0
    """The bytes of the last page."""
    record_bytes: int = KPL_BYTES
    """The average size of a stream record in the last page that held any."""

    def polled(self, page: Page, at: datetime, settings: Settings) -> Pace:
        """Returns the pace after a poll that returned this page."""
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
        """Returns the pace after a throttled poll. Kinesis allows a shard five calls and 2 MB a second over all its
        readers. Behind the tip our own pages use that up, so throttling there says nothing about other readers.
        """
        slower = min(2 * max(self.shared, settings.poll_interval), settings.idle_poll_interval)
        return replace(self, shared=slower if self.is_at_tip else self.shared, refusals=self.refusals + 1)


def next_poll_at(pace: Pace, polled_at: datetime, chance: Chance, settings: Settings) -> datetime:
    """When to poll after a successful poll: behind the tip after `poll_interval`, or later if `poll_bytes` says so; at
    the tip after the pace's own interval.
    """
    if not pace.is_at_tip:
        paid_for = timedelta(seconds=pace.page_bytes / READ_BYTES_PER_SECOND)
        return polled_at + (
            settings.poll_interval if settings.poll_bytes is None else max(settings.poll_interval, paid_for)
        )
    later = 1 + SPREAD * chance.getrandbits(SPREAD_BITS) / (1 << SPREAD_BITS)
    return polled_at + _interval_at_tip(pace, polled_at, settings) * later


def asked_for_at(pace: Pace, poll_at: datetime, polled_at: datetime, asked_at: datetime | None) -> datetime:
    """When to poll next, if a poll is due at `poll_at`. At the tip it is sooner if a program has begun to ask for
    records since the last poll, but not if polls were throttled, since other readers share the shard.
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
    """Returns how many records the next poll asks for: at most half of what may be in flight, so that a shard whose few
    records are being handled leaves room for other shards' polls.
    """
    most = min(settings.poll_limit, settings.max_records_in_flight // 2)
    if settings.poll_bytes is None:
        return most
    return min(max(settings.poll_bytes // pace.record_bytes, 1), most)


def throttled_until(now: datetime, refusals: int) -> datetime:
    """When to poll after the n-th refusal in a row: 1, 2, 4, then 5 s later, since one reply of 10 MB uses up a shard's
    2 MB a second for five seconds.
    """
    return now + min(timedelta(seconds=1 << min(refusals - 1, 3)), timedelta(seconds=5))
