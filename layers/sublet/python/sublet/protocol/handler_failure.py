"""Why a shard stands still: the error of the handler's last call. The owner notes it in writes that it makes anyway.

As text, `<error>/<attempt>/<time>/<the last characters of the checkpoint>`, the time in epoch milliseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sublet.protocol.checkpoint import Checkpoint

ERROR_LENGTH = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.]")
_TEXT = re.compile(rf"([A-Za-z0-9_.]{{1,{ERROR_LENGTH}}})/([1-9]\d{{0,8}})/(\d{{1,14}})/([^/]{{1,20}})")


class HandlerFailure(NamedTuple):
    """The handler fails with the records that follow a checkpoint. `error` is only the exception's class: its message
    may contain a record's data.

    attempt  which attempt at these records failed last, from 1 on, earlier windows included
    since    when the first known attempt failed, in whole milliseconds as a row keeps it
    """

    error: str
    attempt: int
    since: datetime


def error_name(failure: BaseException) -> str:
    """The exception's class, as a row keeps it: at most ERROR_LENGTH characters of ASCII."""
    return _NOT_A_NAME.sub("_", type(failure).__name__)[:ERROR_LENGTH]


def failure_text(failure: HandlerFailure, checkpoint: Checkpoint) -> str:
    error, attempt, since = failure
    return f"{error}/{attempt}/{(since - _EPOCH) // _MILLISECOND}/{checkpoint.tail}"


def read_failure_text(text: str, checkpoint: Checkpoint) -> HandlerFailure | None:
    """None if the text belongs to another checkpoint, or is not as we write it: it only informs, so it never makes a
    row malformed.
    """
    known = _TEXT.fullmatch(text)
    if known is None or known[4] != checkpoint.tail:
        return None
    return HandlerFailure(known[1], int(known[2]), _EPOCH + int(known[3]) * _MILLISECOND)
