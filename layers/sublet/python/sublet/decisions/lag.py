"""How far a session's shard is behind the checkpoint that its row has, by what the session has read and handled."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.throughput import averaged
from sublet.protocol.checkpoint import Checkpoint

NOTHING = timedelta(0)


class Stretch(NamedTuple):
    """Stream records that follow each other and are handled. `up_to`: the checkpoint that they make."""

    up_to: Checkpoint
    first_arrived_at: datetime
    last_arrived_at: datetime


class LastPage(NamedTuple):
    """`behind`: by the page that was handled last; None if it was empty and lags, which does not show whether records wait."""

    behind: timedelta | None
    polled_at: datetime


class Rates(NamedTuple):
    """Moving averages as of `at`, by when so many bytes and records had been handled; None: not measured."""

    at: datetime
    bytes_per_second: float | None = None
    records_per_second: float | None = None
    handled_bytes: int = 0
    handled_records: int = 0

    def after(self, handled_bytes: int, handled_records: int, now: datetime, interval: timedelta) -> Rates:
        """Updates once per interval, however often it is called."""
        since = now - self.at
        if since < interval:
            return self
        return Rates(
            now,
            averaged(self.bytes_per_second, handled_bytes - self.handled_bytes, since),
            averaged(self.records_per_second, handled_records - self.handled_records, since),
            handled_bytes,
            handled_records,
        )


def lag_of(
    checkpoint: Checkpoint,
    handled: Iterable[Stretch],
    in_hand_since: datetime | None,
    last: LastPage | None,
    now: datetime,
) -> tuple[datetime, timedelta | None]:
    """A moment, and how long the first record after the checkpoint had waited then.

    handled        in order; those beyond the checkpoint are handled, but not checkpointed
    in_hand_since  when the first record arrived that is being handled; None if none is
    """
    beyond = next((each.first_arrived_at for each in handled if each.up_to > checkpoint), in_hand_since)
    if beyond is not None:
        return now, max(now - beyond, NOTHING)
    if last is None or last.behind is None:
        return now, None
    return (now, last.behind + (now - last.polled_at)) if last.behind else (last.polled_at, NOTHING)
