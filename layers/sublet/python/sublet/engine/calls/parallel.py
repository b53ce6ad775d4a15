"""One shard's records in several handler calls at once: each partition key always in one of them, and in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sublet.decisions.crash_caution import Caution, caution
from sublet.decisions.finished_prefix import FinishedPrefix
from sublet.decisions.lanes import lanes_of
from sublet.engine.lease.progress import Progress
from sublet.ports import Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, lane_of
from sublet.protocol.records import UserRecord

if TYPE_CHECKING:
    from sublet.engine.calls.runner import BatchRunner

CALLS_AHEAD = 256
"""How many calls' records are spread over each lane at once, when there are so many: lanes that wait for the longest of them wait
seldom, and what is finished out of order is bounded."""


@dataclass(slots=True)
class Spread:
    """Records that are handed over side by side, in so many lanes: the checkpoint follows the lowest that is not finished.

    limit   a lane that has come to this place goes on no more (None: there is none)
    """

    records: Sequence[UserRecord]
    real: Progress
    lock: AbstractContextManager[object]
    lanes: int
    prefix: FinishedPrefix = field(default_factory=FinishedPrefix)
    limit: int | None = None
    of_lanes: list[LaneProgress] = field(default_factory=list)

    def finished_ahead(self, *, as_put: bool) -> FinishedAhead:
        """How far each lane has come. Asked by whichever thread writes, while the lanes go on: what they have done stays done."""
        up_to: list[Checkpoint | None] = [None] * self.lanes
        for lane in self.of_lanes:
            if (done := lane.done) > 0:
                last = self.records[lane.places[done - 1]]
                up_to[lane_of(last.order_key, self.lanes)] = last.checkpoint
        return FinishedAhead(tuple(up_to), as_put)

    def go_no_further(self, place: int) -> None:
        with self.lock:
            self.limit = place if self.limit is None else min(self.limit, place)

    def finish(self, places: Sequence[int]) -> None:
        with self.lock:
            before = self.prefix.length
            for place in places:
                self.prefix = self.prefix.finish(place, place + 1)
            if self.prefix.length > before:
                self.real.finish(self.records[self.prefix.length - 1].checkpoint)


@dataclass(slots=True)
class LaneProgress:
    """What BatchRunner knows of a lane's progress; the shard's own is the spread's."""

    spread: Spread
    places: Sequence[int]
    done: int = 0

    @property
    def finished(self) -> Checkpoint:
        return self.spread.real.finished

    @property
    def lanes(self) -> int:
        return self.spread.lanes

    @property
    def is_unwritten(self) -> bool:
        """Or what this lane does next is not what follows the checkpoint."""
        with self.spread.lock:
            return self.spread.real.is_unwritten or not self.is_next

    @property
    def next_place(self) -> int:
        """Of its first record that is not finished."""
        return self.places[self.done] if self.done < len(self.places) else len(self.spread.records)

    @property
    def is_next(self) -> bool:
        """The first record that is not finished is this lane's."""
        return self.done < len(self.places) and self.next_place == self.spread.prefix.length

    @property
    def has_come_to_limit(self) -> bool:
        return self.spread.limit is not None and self.next_place >= self.spread.limit

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
        """What this lane has finished, be it beyond what another has not."""
        with self.spread.lock:
            if self.spread.real.is_unwritten:
                self.spread.real.write()
            elif self.done and self.places[self.done - 1] >= self.spread.prefix.length:
                self.spread.real.note_ahead()


@dataclass(frozen=True, slots=True)
class LaneStop:
    """The session's, or that this lane has come as far as one that goes on no more. To set it ends all lanes."""

    session: Signal
    progress: LaneProgress

    def set(self) -> None:
        self.progress.spread.go_no_further(0)

    def is_set(self) -> bool:
        return self.session.is_set() or self.progress.has_come_to_limit

    def wait(self, timeout: timedelta) -> bool:
        return self.session.wait(timeout) or self.progress.has_come_to_limit

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """When the session is to end: a lane that has come to its limit sees it with its next call."""
        return self.session.on_set(callback)


def handle_side_by_side(
    handling: BatchRunner, progress: Progress, records: Sequence[UserRecord], millis_behind_latest: int
) -> bool:
    """As BatchRunner.handle: returns when every lane has ended. If one gives up, the others come as far: its first record is then
    what follows the checkpoint, and its attempts can be kept. After a call that hangs they end with their next call.

    Where crashes are so many that a lease is tried alone, its records are not: who dies at once would take the others' calls down
    time and again, and the checkpoint would never come to it.
    """
    tasks, is_careful = handling.ports.tasks, caution(handling.held.lease) >= Caution.ALONE
    spread = Spread(
        records, progress, tasks.lock(), 1 if is_careful else handling.settings.parallelization_factor
    )
    spread.of_lanes = [LaneProgress(spread, places) for places in lanes_of(records, spread.lanes)]
    lanes = [handling.lane(lane, LaneStop(handling.stop, lane)) for lane in spread.of_lanes]
    handling.lanes = tuple(lanes)
    follow = partial(spread.finished_ahead, as_put=not handling.settings.deaggregate)
    no_longer = progress.follow_lanes(follow) if spread.lanes > 1 else None
    started = [
        tasks.spawn(partial(_lane, lane, of, millis_behind_latest))
        for lane, of in zip(lanes, spread.of_lanes, strict=True)
    ]
    faults = []
    for task in started:
        try:
            task.result()
        except BaseException as fault:  # noqa: BLE001 - raised below, when the others have ended
            faults.append(fault)
    if no_longer is not None:
        no_longer()
    if faults:
        raise faults[0]
    handling.take_over()
    return spread.prefix.length == len(records) and not handling.is_hung


def _lane(lane: BatchRunner, progress: LaneProgress, millis_behind_latest: int) -> None:
    spread, places, size = progress.spread, progress.places, lane.settings.batch_size
    try:
        for start in range(0, len(places), size):
            batch = [spread.records[place] for place in places[start : start + size]]
            if not lane.handle(batch, millis_behind_latest):
                spread.go_no_further(0 if lane.is_hung else progress.next_place)
                return
    except BaseException:
        lane.stop.set()
        raise
