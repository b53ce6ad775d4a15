"""What an owner says about its shard in writes that it makes anyway: how far it is behind, and how fast it reads.

As text, `<lag>@<time>/<arrival>/<bytes a second>/<records a second>/<the last 20 characters of the checkpoint>`: the
lag in milliseconds, times in epoch milliseconds, and nothing for what is not known.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sublet.protocol.checkpoint import Checkpoint

_TEXT = re.compile(r"(\d{0,13})@(\d{1,14})/(\d{0,14})/(\d{0,15})/(\d{0,12}(?:\.\d\d)?)/([^/]{1,20})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class LagReport(NamedTuple):
    """A report is about one checkpoint. Moments are by the owner's clock, in whole milliseconds as a row keeps them.

    at                  when it was true
    lag                 how long the first record after the checkpoint had waited; zero: none waited; None: not known
    arrived_at          when the checkpointed record arrived, or one shortly before it; None if not known
    bytes_per_second    of stream records handled since the report before, as a moving average that includes the time
                        between windows; None if it was not measured
    records_per_second  the same of user records
    """

    at: datetime
    lag: timedelta | None = None
    arrived_at: datetime | None = None
    bytes_per_second: int | None = None
    records_per_second: float | None = None

    @property
    def waits_since(self) -> datetime | None:
        """The moment since which a record waits; None if none does, or it is not known."""
        return self.at - self.lag if self.lag else None

    @property
    def nothing_waited_at(self) -> datetime | None:
        """When nothing waited; None if a record waited, or it is not known."""
        return self.at if self.lag is not None and not self.lag else None


def lag_text(report: LagReport, checkpoint: Checkpoint) -> str:
    at, lag, arrived_at, size, records = report
    return "{}@{}/{}/{}/{}/{}".format(
        "" if lag is None else lag // _MILLISECOND,
        _millis(at),
        "" if arrived_at is None else _millis(arrived_at),
        "" if size is None else size,
        "" if records is None else f"{records:.2f}",
        checkpoint.tail,
    )


def read_lag_text(text: str, checkpoint: Checkpoint) -> LagReport | None:
    """None if the text belongs to another checkpoint, or is not as we write it: it only informs, so it never makes a
    row malformed.
    """
    known = _TEXT.fullmatch(text)
    if known is None or known[6] != checkpoint.tail:
        return None
    lag, at, arrived_at, size, records, _ = known.groups()
    return LagReport(
        _moment(at),
        int(lag) * _MILLISECOND if lag else None,
        _moment(arrived_at) if arrived_at else None,
        int(size) if size else None,
        float(records) if records else None,
    )


def _millis(at: datetime) -> int:
    return (at - _EPOCH) // _MILLISECOND


def _moment(millis: str) -> datetime:
    return _EPOCH + int(millis) * _MILLISECOND
