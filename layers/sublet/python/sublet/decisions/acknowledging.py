"""What has become of one shard's records that were handed out: under way, done, or to come again.

Records are numbered from 0 on in their order. A delivery is a number and an attempt: when a record is to come again, the delivery
that was out is void, and what is said of it afterwards counts for nothing. Order holds within a key: a record that comes again
brings with it what was out, or would be next, of its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.finished_prefix import FinishedPrefix


class Out(NamedTuple):
    """A delivery under way. `until`: it comes again if nothing has been said of it by then."""

    key: str
    attempt: int
    until: datetime


class Held(NamedTuple):
    """Records of one key that are not to be handed out before the moment, in order."""

    until: datetime
    numbers: tuple[int, ...]


class Acknowledging(Struct, frozen=True):
    """out       by number, the one whose time is over first before all others
    held      by key; a key that is here is handed out nothing of
    attempts  by number, of those that have been out and are not now
    """

    finished: FinishedPrefix = FinishedPrefix()
    out: Mapping[int, Out] = {}
    held: Mapping[str, Held] = {}
    attempts: Mapping[int, int] = {}

    @property
    def is_idle(self) -> bool:
        """Nothing is out, and nothing is to come again."""
        return not self.out and not self.held

    @property
    def next_at(self) -> datetime | None:
        """When the next record is to come again, if nobody says anything until then."""
        moments = [held.until for held in self.held.values()]
        first = next(iter(self.out.values()), None)
        return min([*moments, first.until] if first is not None else moments, default=None)

    def hand_out(self, number: int, key: str, until: datetime) -> Acknowledging:
        """The next record of a key that is not held. `until` is not before that of any that is out."""
        attempt = self.attempts.get(number, 0) + 1
        attempts = {n: a for n, a in self.attempts.items() if n != number} if attempt > 1 else self.attempts
        out = {**self.out, number: Out(key, attempt, until)}
        return Acknowledging(self.finished, out, self.held, attempts)

    def hand_out_row(self, start: int, done: int, keys: Sequence[str], until: datetime) -> Acknowledging:
        """Records that have never been out, one after the other, while no key is held: those up to `done` are done already, and
        of the rest these are the keys."""
        out = {number: Out(key, 1, until) for number, key in enumerate(keys, done)}
        finished = self.finished.finish(start, done)
        return Acknowledging(finished, {**self.out, **out}, self.held, self.attempts)

    def hold(self, number: int, key: str) -> Acknowledging:
        """It is the next of a key that is held: it waits with the others."""
        held = self.held[key]
        return replace(
            self, held={**self.held, key: held._replace(numbers=tuple(sorted((*held.numbers, number))))}
        )

    def is_out(self, number: int, attempt: int) -> bool:
        """Whether this delivery is under way. If not, it is done already, or void."""
        known = self.out.get(number)
        return known is not None and known.attempt == attempt

    def ack(self, number: int, attempt: int) -> Acknowledging | None:
        """This record alone is done. None: that delivery is not under way any more, and nothing changes."""
        if not self.is_out(number, attempt):
            return None
        out = dict(self.out)
        del out[number]
        return Acknowledging(self.finished.finish(number, number + 1), out, self.held, self.attempts)

    def nak(self, number: int, attempt: int, again_at: datetime) -> Acknowledging | None:
        """It comes again, not before the moment, nor that of another of its key that waits; what is out of its key and later is
        void, and comes again after it.
        """
        if not self.is_out(number, attempt):
            return None
        key = self.out[number].key
        again = {n: o for n, o in self.out.items() if n >= number and o.key == key}
        known = self.held.get(key)
        waiting = () if known is None else known.numbers
        until = again_at if known is None else max(again_at, known.until)
        return replace(
            self,
            out={n: o for n, o in self.out.items() if n not in again},
            held={**self.held, key: Held(until, tuple(sorted((*again, *waiting))))},
            attempts={**self.attempts, **{n: o.attempt for n, o in again.items()}},
        )

    def in_progress(self, number: int, attempt: int, until: datetime) -> Acknowledging | None:
        """It takes longer; `until` is not before that of any that is out."""
        if not self.is_out(number, attempt):
            return None
        out = {n: o for n, o in self.out.items() if n != number}
        return replace(self, out={**out, number: self.out[number]._replace(until=until)})

    def forget(self, now: datetime) -> tuple[Acknowledging, tuple[int, ...]]:
        """What nothing has been said of in time comes again at once. With the numbers of those, in order."""
        overdue = [n for n, o in self.out.items() if o.until <= now] if self._is_any_overdue(now) else []
        after = self
        for number in sorted(
            overdue
        ):  # one that is void since an earlier one of its key comes again with that
            after = (
                after.nak(number, after.out[number].attempt, now) or after if number in after.out else after
            )
        return after, tuple(sorted(overdue))

    def _is_any_overdue(self, now: datetime) -> bool:
        first = next(iter(self.out.values()), None)
        return first is not None and first.until <= now

    def come_again(self, now: datetime) -> tuple[Acknowledging, tuple[int, ...]]:
        """What is held no longer. With its numbers, in order, to be handed out before what is new."""
        due = {key: held for key, held in self.held.items() if held.until <= now}
        if not due:
            return self, ()
        numbers = sorted(number for held in due.values() for number in held.numbers)
        return replace(self, held={k: h for k, h in self.held.items() if k not in due}), tuple(numbers)
