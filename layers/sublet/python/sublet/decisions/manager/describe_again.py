"""When to describe a stream again: a whole account may call DescribeStreamSummary 20 times a second.

So an application's processes share each answer for some minutes. Only a deletion makes it wrong. A new stream of the
same name has other shards: if a shard listing shows that, the stream is described at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from sublet.protocol.stream_identity import StreamArn
from sublet.protocol.stream_info import Placement

PATIENCE = timedelta(seconds=10)
"""How long to wait for a process that has started to ask."""


class DescriptionDoubt(Enum):
    """Why a remembered description may be another stream's."""

    NONE = "none"
    SUSPECTS = "leases and listing do not match: the stream may have been deleted and created again"
    OTHER_NAME = "it describes a stream with another name"


_KNOWN_FOR = {
    DescriptionDoubt.NONE: timedelta(minutes=5),
    DescriptionDoubt.SUSPECTS: timedelta(0),
    DescriptionDoubt.OTHER_NAME: timedelta(0),
}
"""How long a description is used."""


def doubt_of(placement: Placement, stream: str, stream_arn: str | None, *, has_suspects: bool) -> DescriptionDoubt:
    """`stream`, `stream_arn`: the stream being read. NONE if nothing is remembered."""
    if placement.last is None:
        return DescriptionDoubt.NONE
    arn = placement.last.identity.arn
    if StreamArn.parse(arn).stream != stream or stream_arn not in (None, arn):
        return DescriptionDoubt.OTHER_NAME
    return DescriptionDoubt.SUSPECTS if has_suspects else DescriptionDoubt.NONE


def is_known(placement: Placement, now: datetime, doubt: DescriptionDoubt) -> bool:
    """Whether the remembered description is recent enough. A time in the future counts as one as far in the past."""
    return placement.last is not None and abs(now - placement.last.at) < _KNOWN_FOR[doubt]


def is_being_described(asked_at: datetime | None, now: datetime) -> bool:
    """Whether another process has started to ask and may still get an answer."""
    return asked_at is not None and abs(now - asked_at) < PATIENCE
