"""Puts the records of several shards in the order of their arrival, while they are read side by side.

A record is held until no shard that is waited for can still have an earlier one. A shard is not waited for at its tip,
since its next records will be later ones, nor once it has brought no record in `PATIENCE` reads in a row: it is
refused, or walks a long quiet stretch, and the other shards' records are not to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from sublet.protocol.records import UserRecord

PATIENCE = 10
"""After so many reads in a row without a record a shard is not waited for: ten seconds, at a read a second."""

LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


class TailedRecord(NamedTuple):
    shard_id: str
    record: UserRecord


@dataclass(slots=True)
class _ShardReads:
    """What is known of a shard that is being read.

    reached    no later record of it is to be shown before one that arrived then
    is_at_tip  its last page had all that there was
    fruitless  how many reads in a row brought no record
    held       how many of its records are held
    """

    reached: datetime = LONG_AGO
    is_at_tip: bool = False
    fruitless: int = 0
    held: int = 0

    @property
    def is_waited_for(self) -> bool:
        return not self.held and not self.is_at_tip and self.fruitless < PATIENCE


@dataclass(slots=True)
class ArrivalOrder:
    """Takes what was read of each shard, and releases the records that are next. A shard's own records stay in its
    order, and a child's come after its parents', whatever their arrival times say.
    """

    _shards: dict[str, _ShardReads] = field(default_factory=dict)
    _last: dict[str, datetime] = field(default_factory=dict)
    """Of ended shards too: how far each had come, for its children."""
    _held: list[tuple[datetime, int, TailedRecord]] = field(default_factory=list)
    _serial: count[int] = field(default_factory=count)

    def begin(self, shard_id: str, parent_shard_ids: Iterable[str] = ()) -> None:
        reached = max((self._last.get(parent, LONG_AGO) for parent in parent_shard_ids), default=LONG_AGO)
        self._shards[shard_id] = _ShardReads(reached)

    def end(self, shard_id: str) -> None:
        """No more is read of the shard. What is held of it is still released."""
        self._last[shard_id] = self._shards.pop(shard_id).reached

    def held_of(self, shard_id: str) -> int:
        """How many of a shard's records are held. Who reads on while there are many only fills the memory."""
        return self._shards[shard_id].held

    def add(self, shard_id: str, records: Iterable[UserRecord], reached: datetime | None, *, is_at_tip: bool) -> None:
        """Takes a page of the shard.

        reached  how far the page has come in the shard's time; None if that is not known
        """
        shard = self._shards[shard_id]
        before = shard.held
        for record in records:
            shard.reached = max(shard.reached, record.approximate_arrival_timestamp)
            heappush(self._held, (shard.reached, next(self._serial), TailedRecord(shard_id, record)))
            shard.held += 1
        if shard.held == before and reached is not None:
            shard.reached = max(shard.reached, reached)
        shard.is_at_tip = is_at_tip
        shard.fruitless = shard.fruitless + 1 if shard.held == before else 0

    def unanswered(self, shard_id: str) -> None:
        shard = self._shards[shard_id]
        shard.is_at_tip = False
        shard.fruitless += 1

    def released(self) -> Iterator[TailedRecord]:
        """Yields the records that are next, the earliest first."""
        barrier = self._barrier()
        while self._held and (barrier is None or self._held[0][0] <= barrier):
            _, _, found = heappop(self._held)
            shard = self._shards.get(found.shard_id)
            if shard is not None:
                shard.held -= 1
                if not shard.held:
                    barrier = self._barrier()
            yield found

    def _barrier(self) -> datetime | None:
        """Up to where all shards that are waited for have been read; None if there are none."""
        return min((shard.reached for shard in self._shards.values() if shard.is_waited_for), default=None)
