"""The last reports of a lease's owners, at most one a minute: how far they had come, and how far they were behind.

As text, `<time>;<entry>;<entry>...`, oldest first. An entry is `<seconds after that time>,<lag in
seconds>,<milliseconds after that time at which the checkpointed record arrived>`, and nothing for what is not known.
Numbers are base 36, and the time is in epoch seconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from sublet.protocol.base36 import base36

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)
_TEXT = re.compile(r"[0-9a-z]{1,8}(;[0-9a-z]{1,7},[0-9a-z]{0,7},(-?[0-9a-z]{1,9})?){1,10}")


class LagSeen(NamedTuple):
    """`at` and `lag` are in whole seconds. What they mean: see LagReport."""

    at: datetime
    lag: timedelta | None
    arrived_at: datetime | None


def lag_history_text(history: Sequence[LagSeen]) -> str:
    """The attribute's text; the history must not be empty."""
    began = history[0].at
    return ";".join((base36((began - _EPOCH) // _SECOND), *(_entry(each, began) for each in history)))


@lru_cache(maxsize=1024)  # most writes leave it as it is, and each reads the row again
def read_lag_history(text: str) -> tuple[LagSeen, ...]:
    """Returns an empty history if the text is not as we write it: it only informs, so it never makes a row
    malformed.
    """
    if not _TEXT.fullmatch(text):
        return ()
    first, *entries = text.split(";")
    began = _EPOCH + int(first, 36) * _SECOND
    return tuple(_seen(began, *entry.split(",")) for entry in entries)


def _entry(seen: LagSeen, began: datetime) -> str:
    lag = "" if seen.lag is None else base36(seen.lag // _SECOND)
    arrived = "" if seen.arrived_at is None else base36((seen.arrived_at - began) // _MILLISECOND)
    return f"{base36((seen.at - began) // _SECOND)},{lag},{arrived}"


def _seen(began: datetime, at: str, lag: str, arrived: str) -> LagSeen:
    return LagSeen(
        began + int(at, 36) * _SECOND,
        int(lag, 36) * _SECOND if lag else None,
        began + int(arrived, 36) * _MILLISECOND if arrived else None,
    )
