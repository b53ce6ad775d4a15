"""A user's own handler in the simulation: called as the engine calls it, and cut off as by a crash."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from msgspec import structs

from sublet.handler import Batch, CheckpointReply, Handler
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.records import UserRecord
from sublet.testing.simulation.handler_crashes import (
    IN_THE_HANDLER,
    HandlerCrash,
    HandlerCrashes,
    WatchedLines,
)
from sublet.testing.simulation.handlers import HandlerFailed
from sublet.testing.simulation.ledger import OrderBroken
from sublet.testing.simulation.scheduler import SECOND, Crashed, Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World


@dataclass(slots=True)
class SimulatedCall:
    """One call of `handle`."""

    at_us: int
    worker: str
    shard_id: str
    records: Sequence[UserRecord]
    finished: int = 0
    """How many of the records, from the first, it has reported as done, by a checkpoint or by returning."""


@dataclass(slots=True)
class Calls:
    """All calls of one world."""

    made: list[SimulatedCall] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    """Exceptions of the user's own code."""


class OtherThread(Exception):
    """A checkpoint outside of any greenlet: the engine cannot be entered from that thread."""

    def __init__(self) -> None:
        super().__init__(
            "simulate cannot take a checkpoint made in another thread, as those of coroutines are: test it with consume"
        )


class SimulatedHandler:
    """The Handler port of one process. It may die before a call, at any line or checkpoint within it, or right after
    it.

    In a dead process every checkpoint raises, in the handler's `finally` and `except BaseException` too.
    """

    def __init__(self, world: World, process: Process, handler: Handler, calls: Calls, crashes: HandlerCrashes) -> None:
        self._world = world
        self._process = process
        self._handler = handler
        self._calls = calls
        self._crashes = crashes
        self._by_hand = world.settings.is_checkpointed_by_hand
        self._kept: dict[str, list[SimulatedCall]] = {}
        """The calls of each shard whose records may still be checkpointed, with manual checkpointing."""
        self._thread = threading.get_ident()
        self._refused: OtherThread | None = None

    def handle(self, batch: Batch) -> None:
        world = self._world
        self._check_order(batch)
        world.step(self._process)
        call = SimulatedCall(world.scheduler.now_us, self._process.name, batch.shard_id, batch.records)
        self._calls.made.append(call)
        world.note(self._process.name, f"calls the handler with {batch}")

        if self._by_hand:
            self._kept.setdefault(batch.shard_id, []).append(call)
        crash = self._drawn(len(batch.records))
        try:
            with self._dying(crash) as lines:
                self._handler.handle(self._watched(batch, call, crash, lines))
        except Exception as failure:
            self._calls.failures.append(failure)
            self._refuse()
            if self._by_hand and call.finished:
                world.ledger.hand_over(self._process, batch.shard_id, batch.records[call.finished - 1])
            raise
        self._refuse()
        self._take_time()
        if self._by_hand:  # it keeps its records: only a crash redelivers them
            world.ledger.hand_over(self._process, batch.shard_id, batch.records[-1])
            return
        self._fail_at_times("after the handler has returned")
        self._finish(call, len(batch.records))

    def _watched(
        self, batch: Batch, call: SimulatedCall, crash: HandlerCrash | None, lines: WatchedLines | None
    ) -> Batch:
        """Returns a `checkpoint` that reports to the ledger before the checkpoint is written."""

        def checkpoint(record: UserRecord) -> bool:
            with self._checkpointing(crash, lines):
                if self._by_hand:
                    self._finish_kept(call, record.checkpoint)
                else:
                    self._finish_up_to(call, record)
                return batch.checkpoint(record)

        def checkpoint_at(position: Checkpoint) -> CheckpointReply:
            with self._checkpointing(crash, lines):
                self._finish_kept(call, position)
                return batch.checkpoint_at(position)

        return structs.replace(batch, checkpoint=checkpoint, checkpoint_at=checkpoint_at)

    @contextmanager
    def _checkpointing(self, crash: HandlerCrash | None, lines: WatchedLines | None) -> Iterator[None]:
        """A checkpoint of the user's code. A dead process makes none, and one may die right after it, or a little
        later.
        """
        if threading.get_ident() != self._thread:
            self._refused = OtherThread()
            raise self._refused
        self._world.scheduler.check_alive()
        with nullcontext() if lines is None else lines.off():
            yield
            if crash is None or not crash.checkpoints:
                return
            crash.checkpoints -= 1
            if crash.checkpoints == 0:
                self._world.scheduler.sleep(crash.wait_us)
                self._die("after a checkpoint")

    def _drawn(self, records: int) -> HandlerCrash | None:
        return self._crashes.draw(records) if self._process.chaotic and self._world.has_faults else None

    @contextmanager
    def _dying(self, crash: HandlerCrash | None) -> Iterator[WatchedLines | None]:
        """A call of the user's code, which ends as the process does, whatever the code did with the exception."""
        lines = None
        if crash is not None and crash.lines:
            lines = WatchedLines(crash.lines, lambda at: self._die(f"at {at}"))
        try:
            with nullcontext() if lines is None else lines.on():
                yield lines
        finally:
            self._world.scheduler.check_alive()

    def _die(self, where: str) -> None:
        world = self._world
        world.note(self._process.name, f"crashes in the handler, {where}")
        world.faults[IN_THE_HANDLER] = world.faults.get(IN_THE_HANDLER, 0) + 1
        self._crashes.struck()
        world.scheduler.kill(self._process)
        raise Crashed

    def _refuse(self) -> None:
        """Called in the world's own thread: whatever the user's code did with the exception, the run does not test
        it.
        """
        if self._refused is not None:
            self._calls.failures.append(self._refused)
            self._world.fail(str(self._refused))

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        if self._by_hand:
            self._kept[shard_id] = []
            self._world.ledger.begin_reading(self._process, shard_id)
        with self._dying(self._drawn(1)):
            self._handler.lease_acquired(shard_id, checkpoint, pending)
        self._after("lease_acquired")

    def lease_releasing(self, shard_id: str) -> None:
        with self._dying(self._drawn(1)):
            self._handler.lease_releasing(shard_id)
        self._after("lease_releasing")

    def lease_lost(self, shard_id: str) -> None:
        with self._dying(self._drawn(1)):
            self._handler.lease_lost(shard_id)
        self._after("lease_lost")

    def shard_ended(self, shard_id: str) -> None:
        with self._dying(self._drawn(1)):
            self._handler.shard_ended(shard_id)
        self._after("shard_ended")

    def _check_order(self, batch: Batch) -> None:
        world = self._world
        world.scheduler.check_alive()
        try:
            stored = world.watch.checkpoints.get(batch.shard_id)
            world.ledger.check_batch(self._process, batch.shard_id, batch.records, stored)
        except OrderBroken as broken:
            world.fail(f"handler called for {batch.shard_id}: {broken}")

    def _finish_up_to(self, call: SimulatedCall, record: UserRecord) -> None:
        """Reports the records to the ledger before the checkpoint is written. The engine refuses a record of another
        batch.
        """
        for place, known in enumerate(call.records):
            if known is record:
                self._finish(call, place + 1)

    def _finish_kept(self, during: SimulatedCall, to: Checkpoint) -> None:
        """Finishes everything up to there that was handed over for the lease. If the current call fails, the rest of it
        is delivered again.
        """
        for call in self._kept.get(during.shard_id, ()):
            count = bisect_right(call.records, to, key=lambda record: record.checkpoint)
            for record in call.records[call.finished : count]:
                self._world.ledger.finish_kept(call.shard_id, record)
            call.finished = max(call.finished, count)

    def _finish(self, call: SimulatedCall, count: int) -> None:
        for record in call.records[call.finished : count]:
            self._world.ledger.finish(self._process, call.shard_id, record)
        call.finished = max(call.finished, count)

    def _take_time(self) -> None:
        """Lets simulated time pass in the user's code, which takes none itself; sometimes enough for a lease to change
        hands.
        """
        self._world.step(self._process)
        if self._world.strikes(Fault.HANDLER_SLOW):
            self._world.scheduler.sleep(int(self._world.chance.uniform(1, 60) * SECOND))

    def _after(self, what: str) -> None:
        self._world.step(self._process)
        self._fail_at_times(f"after {what} has returned")

    def _fail_at_times(self, when: str) -> None:
        if self._world.strikes(Fault.HANDLER_FAILS):
            self._world.note(self._process.name, f"fails {when}")
            raise HandlerFailed(f"the simulation fails {when}")
