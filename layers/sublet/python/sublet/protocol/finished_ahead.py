"""What is finished beyond a lease's checkpoint, where the records of its shard are handled side by side.

A partition key is always in the same lane, and each lane is handled in order. So how far each lane has come says all of it, in a
few bytes. An attribute of ours on the lease's row has it as text:

    <counter>@<position>/<kind>/<nearest>/<lane 0>,<lane 1>,...

It is true of a row that stands at this position and whose counter became this with the write that noted it: whoever else has
written since, or has moved the position, may have meant what is beyond to be handled again. `nearest` is the lowest sequence
number of any lane, counted from the checkpoint's; a lane's is counted from there, with its sub-sequence number behind a dot.
Numbers are of base 36. A lane of which nothing is known is empty: its records are handled again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zlib import crc32

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = r"[0-9a-z]{1,90}"
_TEXT = re.compile(
    rf"(\d{{1,38}})@([^/]+)/([up])/({_NUMBER})/((?:{_NUMBER}(?:\.{_NUMBER})?)?(?:,(?:{_NUMBER}(?:\.{_NUMBER})?)?){{0,99}})"
)
_USER_RECORDS, _AS_PUT = "u", "p"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def lane_of(order_key: str, lanes: int) -> int:
    """Rows say what is finished by it: it stays as it is, or the text names another kind."""
    return crc32(order_key.encode()) % lanes


class FinishedAhead(NamedTuple):
    """Of the records whose keys are in lane n, those up to `up_to[n]` are finished; None: nothing is known of the lane.

    as_put   they are stream records as they were put: an aggregate's own key, and not those of its user records, has its lane
    """

    up_to: tuple[Checkpoint | None, ...]
    as_put: bool = False

    def covers(self, record: UserRecord) -> bool:
        up_to = self.up_to[lane_of(record.order_key, len(self.up_to))]
        return up_to is not None and record.checkpoint <= up_to

    def beyond(self, checkpoint: Checkpoint) -> FinishedAhead | None:
        """What it says beside that; None: nothing."""
        up_to = tuple(to if to is not None and to > checkpoint else None for to in self.up_to)
        return FinishedAhead(up_to, self.as_put) if any(up_to) else None

    def fewer(self) -> Iterator[FinishedAhead]:
        """The same with ever fewer lanes known, down to one."""
        known = [lane for lane, to in enumerate(self.up_to) if to is not None]
        for count in range(len(known) - 1, 0, -1):
            kept = frozenset(known[:count])
            yield self._replace(up_to=tuple(to if n in kept else None for n, to in enumerate(self.up_to)))


def joined(known: FinishedAhead | None, more: FinishedAhead) -> FinishedAhead:
    """What both say. Of another number of lanes, or another kind, the newer alone is kept, as soon as it says anything."""
    if known is None:
        return more
    if len(known.up_to) != len(more.up_to) or known.as_put != more.as_put:
        return more if any(more.up_to) else known
    return more._replace(up_to=tuple(map(_later, known.up_to, more.up_to)))


def _later(one: Checkpoint | None, other: Checkpoint | None) -> Checkpoint | None:
    return max(filter(None, (one, other)), default=None)


def ahead_text(ahead: FinishedAhead, counter: int, checkpoint: Checkpoint, start_at: datetime | None) -> str:
    """Of a lease that stands there. Something is known of one lane at least."""
    base = _base(checkpoint)
    nearest = min(int(to.sequence_number) for to in ahead.up_to if to is not None)
    lanes = ",".join(_lane_text(to, nearest) for to in ahead.up_to)
    kind = _AS_PUT if ahead.as_put else _USER_RECORDS
    return f"{counter}@{_position_text(checkpoint, start_at)}/{kind}/{_text(nearest - base)}/{lanes}"


def read_ahead_text(
    text: str, checkpoint: Checkpoint, start_at: datetime | None
) -> tuple[FinishedAhead, int] | None:
    """With the counter that it is of. None: it is of another position than this, or not what we write."""
    found = _TEXT.fullmatch(text)
    if found is None or found[2] != _position_text(checkpoint, start_at):
        return None
    nearest = _base(checkpoint) + int(found[4], 36)
    ahead = FinishedAhead(
        tuple(_lane(lane, nearest) for lane in found[5].split(",")), as_put=found[3] == _AS_PUT
    )
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
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
