"""Records finished beyond a lease's checkpoint while the records of its shard are handled in parallel.

A partition key always belongs to the same lane, and each lane is handled in order. So it is enough to record the
position of each lane, in a few bytes. An attribute of ours on the lease's row holds it as text:

  <counter>@<position>/<kind>/<nearest>/<lane 0>,<lane 1>,...

The note is valid only if the row still has this position, and if its counter is from the write that noted it. After any
other write, or a move of the position, the records beyond it may have to be handled again.

`nearest` is the lowest sequence number of any lane, relative to the checkpoint's. A lane's is relative to `nearest`,
with its sub-sequence number after a dot. Numbers are base 36. An empty lane is unknown: its records are handled again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zlib import crc32

from sublet.protocol.base36 import base36
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = r"[0-9a-z]{1,90}"
_TEXT = re.compile(
    rf"(\d{{1,38}})@([^/]+)/([up])/({_NUMBER})/((?:{_NUMBER}(?:\.{_NUMBER})?)?(?:,(?:{_NUMBER}(?:\.{_NUMBER})?)?){{0,99}})"
)
_USER_RECORDS, _AS_PUT = "u", "p"


def lane_of(order_key: str, lanes: int) -> int:
    """The lane of a key. Rows depend on this function, so it must not change unless the text gets another kind."""
    return crc32(order_key.encode()) % lanes


def lanes_of(records: Sequence[UserRecord], count: int) -> list[list[int]]:
    """Divides `records` into at most `count` lanes of indexes, each in order. All records of a partition key share a
    lane.
    """
    lanes: list[list[int]] = [[] for _ in range(count)]
    for place, record in enumerate(records):
        lanes[lane_of(record.order_key, count)].append(place)
    return [lane for lane in lanes if lane]


class FinishedAhead(NamedTuple):
    """The records whose keys are in lane n are finished up to `up_to[n]`; None: unknown.

    up_to   by lane
    as_put  the records are stream records as put: an aggregate's lane follows from its own key, not from those of its
            user records
    """

    up_to: tuple[Checkpoint | None, ...]
    as_put: bool = False

    def covers(self, record: UserRecord) -> bool:
        up_to = self.up_to[lane_of(record.order_key, len(self.up_to))]
        return up_to is not None and record.checkpoint <= up_to

    def beyond(self, checkpoint: Checkpoint) -> FinishedAhead | None:
        """The part that is beyond this checkpoint; None if there is none."""
        up_to = tuple(to if to is not None and to > checkpoint else None for to in self.up_to)
        return FinishedAhead(up_to, self.as_put) if any(up_to) else None

    def fewer(self) -> Iterator[FinishedAhead]:
        """Yields this value with fewer and fewer known lanes, down to one."""
        known = [lane for lane, to in enumerate(self.up_to) if to is not None]
        for count in range(len(known) - 1, 0, -1):
            kept = frozenset(known[:count])
            yield self._replace(up_to=tuple(to if n in kept else None for n, to in enumerate(self.up_to)))


def joined(known: FinishedAhead | None, more: FinishedAhead) -> FinishedAhead:
    """Combines the two. If the number of lanes or the kind differs, only the newer is kept, once it has any known
    lane.
    """
    if known is None:
        return more
    if len(known.up_to) != len(more.up_to) or known.as_put != more.as_put:
        return more if any(more.up_to) else known
    return more._replace(up_to=tuple(map(_later, known.up_to, more.up_to)))


def _later(one: Checkpoint | None, other: Checkpoint | None) -> Checkpoint | None:
    return max(filter(None, (one, other)), default=None)


def ahead_text(ahead: FinishedAhead, counter: int, checkpoint: Checkpoint, start_at: datetime | None) -> str:
    """The attribute's text for a lease with this counter and position. At least one lane must be known."""
    base = _base(checkpoint)
    nearest = min(int(to.sequence_number) for to in ahead.up_to if to is not None)
    lanes = ",".join(_lane_text(to, nearest) for to in ahead.up_to)
    kind = _AS_PUT if ahead.as_put else _USER_RECORDS
    return f"{counter}@{_position_text(checkpoint, start_at)}/{kind}/{_text(nearest - base)}/{lanes}"


def read_ahead_text(text: str, checkpoint: Checkpoint, start_at: datetime | None) -> tuple[FinishedAhead, int] | None:
    """The value and its counter. None: it is for another position, or not in our format."""
    found = _TEXT.fullmatch(text)
    if found is None or found[2] != _position_text(checkpoint, start_at):
        return None
    nearest = _base(checkpoint) + int(found[4], 36)
    ahead = FinishedAhead(tuple(_lane(lane, nearest) for lane in found[5].split(",")), as_put=found[3] == _AS_PUT)
    return (ahead, int(found[1])) if any(ahead.up_to) else None


def _position_text(checkpoint: Checkpoint, start_at: datetime | None) -> str:
    moment = "" if start_at is None else f"+{(start_at - _EPOCH) // timedelta(milliseconds=1)}"
    return f"{checkpoint}{moment}"


def _base(checkpoint: Checkpoint) -> int:
    return int(checkpoint.sequence_number) if checkpoint.is_sequence_number else 0


def _lane_text(to: Checkpoint | None, nearest: int) -> str:
    if to is None:
        return ""
    sub = f".{_text(to.sub_sequence_number)}" if to.sub_sequence_number else ""
    return _text(int(to.sequence_number) - nearest) + sub


def _lane(text: str, nearest: int) -> Checkpoint | None:
    if not text:
        return None
    number, _, sub = text.partition(".")
    return Checkpoint(str(nearest + int(number, 36)), int(sub or "0", 36))


def _text(number: int) -> str:
    if number < 0:
        raise ValueError(f"{number} is negative: what is finished ahead lies beyond the checkpoint")
    return base36(number)
