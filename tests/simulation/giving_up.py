"""Worlds in which records are set aside, because handlers never handle some of them, and the destination refuses at
times.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from sublet.errors import BatchItemsFailed
from sublet.handler import Batch
from sublet.ports import FailureDestination
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.failure_document import SetAsideBatch
from sublet.settings import Settings
from sublet.testing.simulation.balance import Neighbours
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.handlers import HandlerFailed, SimHandler
from sublet.testing.simulation.ledger import OrderBroken
from sublet.testing.simulation.ports import SimDestination
from sublet.testing.simulation.producer_and_operator import put_number
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.simulation.no_repeats import NoRepeats

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"
BY_HAND = frozenset((Fault.ROW_DELETED, Fault.ROW_GONE_BAD, Fault.CHECKPOINT_MOVED, Fault.OTHER_STREAM))
"""An operator's changes to rows are tested elsewhere."""

POISON_EACH = 11

ANY_RECORD = '{"Filters": [{"Pattern": "{\\"eventSource\\": [\\"aws:kinesis\\"]}"}]}'
UNREADABLE_EACH = 13
UNREADABLE = b"[" * 20_000
"""Parsing it as JSON exceeds Python's recursion limit."""


class PoisonHandler:
    """The simulation's own handler, except that it never handles the data of every eleventh put: it raises, or reports
    the first of them as failed.
    """

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._real = SimHandler(world, process)

    def handle(self, batch: Batch) -> None:
        poison = next((n for n, record in enumerate(batch.records) if is_poison(record.data)), None)
        if poison is None:
            self._real.handle(batch)
            return
        world = self._world
        world.scheduler.check_alive()
        try:
            stored = world.watch.checkpoints.get(batch.shard_id)
            world.ledger.check_batch(self._process, batch.shard_id, batch.records, stored)
        except OrderBroken as broken:
            world.fail(f"handler called for {batch.shard_id}: {broken}")
        world.step(self._process)
        if world.chance.random() < 0.5:
            raise HandlerFailed("poison")
        for record in batch.records[:poison]:
            world.ledger.finish(self._process, batch.shard_id, record)
        if poison:
            batch.checkpoint(batch.records[poison - 1])
        raise BatchItemsFailed("poison")

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        self._real.lease_acquired(shard_id, checkpoint, pending)

    def lease_releasing(self, shard_id: str) -> None:
        """Nothing is left to flush of the records that it cannot handle."""

    def lease_lost(self, shard_id: str) -> None:
        self._real.lease_lost(shard_id)

    def shard_ended(self, shard_id: str) -> None:
        self._real.shard_ended(shard_id)


def is_poison(data: bytes) -> bool:
    return int(data) % POISON_EACH == 0


def with_unreadable(put: int, _: int) -> bytes:
    return UNREADABLE if put % UNREADABLE_EACH == 0 else b"%d" % put


class LaterDestination:
    """Accepts records at once and stores them later: the effect of a checkpoint before setting aside."""

    def __init__(self, world: World, process: Process) -> None:
        pass

    def put(self, batch: SetAsideBatch) -> None:
        """The engine skips the batch before it is stored."""


def settings_of(seed: int) -> dict[str, Any]:
    """One window's attempts are enough for most: a window for each attempt of each poison record would take hours
    without faults. In a third of the worlds filter criteria read the records' data.
    """
    chance = Random(seed)
    filtered = {"filter_criteria": ANY_RECORD} if seed % 3 == 0 else {}
    return {
        **filtered,
        "on_failure": QUEUE,
        "maximum_retry_attempts": chance.choice((0, 1, 3)),
        "handler_attempts": 10,
        "maximum_record_age": chance.choice((None, None, timedelta(minutes=5))),
        "bisect_batch_on_function_error": chance.random() < 0.6,
    }


def give_up(
    seed: int,
    destination: Callable[[World, Process], FailureDestination] = SimDestination,
    *,
    is_recorded: bool = False,
    without: frozenset[Fault] = BY_HAND,
) -> Result:
    """Run this seed's world to its end, or to the first broken invariant. `without`: faults that it does not have."""
    wiring = Wiring(handler=PoisonHandler, destination=destination)
    return play_giving_up(seed, wiring, settings_of(seed), is_recorded=is_recorded, without=without)


def play_giving_up(
    seed: int,
    wiring: Wiring,
    settings: dict[str, Any],
    *,
    is_recorded: bool = False,
    without: frozenset[Fault] = BY_HAND,
    neighbours: Callable[[Random, Settings], Neighbours | None] = lambda *_: None,
) -> Result:
    data = with_unreadable if "filter_criteria" in settings else put_number
    wiring = NoRepeats().wired(wiring)
    return play(
        seed,
        is_recorded=is_recorded,
        wiring=wiring,
        without=without,
        neighbours=neighbours,
        data=data,
        **settings,
    )
