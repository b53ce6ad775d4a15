"""One shard's records in several handler calls at once: each partition key always in one of them, and in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sublet.decisions.finished_prefix import FinishedPrefix
from sublet.decisions.lanes import lanes_of
from sublet.engine.progress import Progress
from sublet.ports import Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord

if TYPE_CHECKING:
    from sublet.engine.handling import Handling

CALLS_AHEAD = 256
"""How many calls' records are spread over each lane at once, when there are so many: lanes that wait for the longest of them wait
seldom, and what is finished out of order is bounded."""


@dataclass(slots=True)
class Spread:
    """Records that are handed over side by side: the checkpoint follows the lowest that is not finished."""

    records: Sequence[UserRecord]
    real: Progress
    lock: AbstractContextManager[object]
    prefix: FinishedPrefix = field(default_factory=FinishedPrefix)

    def finish(self, places: Sequence[int]) -> None:
        with self.lock:
            before = self.prefix.length
            for place in places:
                self.prefix = self.prefix.finish(place, place + 1)
            if self.prefix.length > before:
                self.real.finish(self.records[self.prefix.length - 1].checkpoint)


@dataclass(slots=True)
class LaneProgress:
    """What Handling knows of a lane's progress; the shard's own is the spread's."""

    spread: Spread
    places: Sequence[int]
    done: int = 0

    @property
    def finished(self) -> Checkpoint:
        return self.spread.real.finished

    @property
    def is_unwritten(self) -> bool:
        """Or what this lane does next is not what follows the checkpoint."""
        return self.spread.real.is_unwritten or not self.is_next

    @property
    def is_next(self) -> bool:
        """The first record that is not finished is this lane's."""
        return self.done < len(self.places) and self.places[self.done] == self.spread.prefix.length

    def finish(self, to: Checkpoint) -> None:
        records = self.spread.records
        done = bisect_right(self.places, to, lo=self.done, key=lambda place: records[place].checkpoint)
        self.spread.finish(self.places[self.done : done])
        self.done = max(self.done, done)

    def checkpoint(self, to: Checkpoint) -> bool:
        self.finish(to)
        self.write_if_due()
        return self.spread.real.written >= to

    def prepare(self, to: Checkpoint, state: bytes) -> bool:
        return self.spread.real.prepare(to, state)

    def hand_over(self, last: Checkpoint, records: int) -> None:
        """Manual checkpointing is refused beside this."""

    def begin_call(self, last: Checkpoint) -> None:
        """Several calls are under way: what the row says counts at once."""

    def end_call(self) -> None: ...

    def has_been_moved(self) -> bool:
        return self.spread.real.has_been_moved()

    def write_if_due(self) -> None:
        with self.spread.lock:
            self.spread.real.write_if_due()

    def write(self) -> None:
        with self.spread.lock:
            self.spread.real.write()


@dataclass(frozen=True, slots=True)
class EitherSignal:
    """The session's, or that a lane beside this one goes on no more."""

    session: Signal
    halt: Signal

    def set(self) -> None:
        self.halt.set()

    def is_set(self) -> bool:
        return self.session.is_set() or self.halt.is_set()

    def wait(self, timeout: timedelta) -> bool:
        return self.session.wait(timeout) or self.halt.is_set()


def handle_side_by_side(
    handling: Handling, progress: Progress, records: Sequence[UserRecord], millis_behind_latest: int
) -> bool:
    """As Handling.handle: returns when every lane has ended. If one gives up, the others end with their next call."""
    tasks, settings = handling.ports.tasks, handling.settings
    spread, halt = Spread(records, progress, tasks.lock()), tasks.signal()
    lanes = []
    for places in lanes_of(records, settings.parallelization_factor):
        stop = EitherSignal(handling.stop, halt)
        lanes.append((handling.lane(LaneProgress(spread, places), stop), places))
    handling.lanes = tuple(lane for lane, _ in lanes)
    started = [
        tasks.spawn(partial(_lane, lane, spread, places, millis_behind_latest)) for lane, places in lanes
    ]
    faults = []
    for task in started:
        try:
            task.result()
        except BaseException as fault:  # noqa: BLE001 - raised below, when the others have ended
            faults.append(fault)
    if faults:
        raise faults[0]
    handling.take_over()
    return spread.prefix.length == len(records) and not handling.is_hung


def _lane(lane: Handling, spread: Spread, places: Sequence[int], millis_behind_latest: int) -> None:
    size = lane.settings.batch_size
    try:
        for start in range(0, len(places), size):
            batch = [spread.records[place] for place in places[start : start + size]]
            if not lane.handle(batch, millis_behind_latest):
                lane.stop.set()
                return
    except BaseException:
        lane.stop.set()
        raise
