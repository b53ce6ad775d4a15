"""Set-aside worlds with parallelization_factor: several calls of a shard at once, each key's records in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sublet.errors import BatchItemsFailed, DestinationRefused
from sublet.handler import Batch
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.records import UserRecord
from sublet.settings import Settings
from sublet.testing.simulation.balance import Neighbours
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.handlers import HandlerFailed
from sublet.testing.simulation.ledger import NEVER, Session
from sublet.testing.simulation.run import Result
from sublet.testing.simulation.scheduler import SECOND, Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.simulation.giving_up import BY_HAND, is_poison, play_giving_up, settings_of


@dataclass(slots=True)
class Tenure:
    """One session: per partition key, the index of the last finished record; and the keys in current calls."""

    session: Session
    last: dict[str, int] = field(default_factory=dict)
    under_way: set[str] = field(default_factory=set)
    """Keys of calls that have not ended."""


@dataclass(slots=True)
class Keys:
    """The order within each key, which the world's ledger does not know: it has one order for a shard."""

    tenures: dict[tuple[Process, str], Tenure] = field(default_factory=dict)

    def place(self, world: World, process: Process, shard_id: str, record: UserRecord) -> int:
        """The record's index in the shard, if it is its key's turn. A session that restarts may be given records again
        that were finished beyond its checkpoint.
        """
        tenure = self.of_session(world, process, shard_id)
        place = world.ledger.shards[shard_id].index_of(record)
        floor = min(tenure.session.floor, *tenure.session.moved_to, NEVER)
        last = tenure.last.get(record.order_key, -1)
        if place < floor:
            world.fail(f"record {place} of {shard_id}, though the checkpoint covered {floor}")
        if place <= last:
            world.fail(f"{record.order_key} of {shard_id}: record {place} after {last}")
        return place

    def done(self, world: World, process: Process, shard_id: str, record: UserRecord) -> None:
        """By any owner: an abandoned call may end late."""
        tenure = self.of_session(world, process, shard_id)
        place = world.ledger.shards[shard_id].index_of(record)
        tenure.last[record.order_key] = max(place, tenure.last.get(record.order_key, -1))
        tenure.session.next = max(place + 1, tenure.session.next or 0)

    @contextmanager
    def calling(self, world: World, process: Process, batch: Batch) -> Iterator[None]:
        """A call of the handler, with records in order and without any key of another current call."""
        places = [self.place(world, process, batch.shard_id, record) for record in batch.records]
        if places != sorted(set(places)):
            world.fail(f"a batch of {batch.shard_id} is not in order: {places}")
        keys = {record.order_key for record in batch.records}
        tenure = self.of_session(world, process, batch.shard_id)
        if twice := keys & tenure.under_way:
            world.fail(f"{min(twice)} of {batch.shard_id}: in two calls at once")
        tenure.under_way |= keys
        try:
            yield
        finally:
            tenure.under_way -= keys

    def of_session(self, world: World, process: Process, shard_id: str) -> Tenure:
        session = world.ledger.sessions[process, shard_id]
        known = self.tenures.get((process, shard_id))
        if known is None or known.session is not session:
            known = self.tenures[process, shard_id] = Tenure(session)
        return known


@dataclass(slots=True)
class SideBySideHandler:
    """It takes time for each record, so that calls overlap. It never handles the data of every eleventh put."""

    world: World
    process: Process
    keys: Keys

    def handle(self, batch: Batch) -> None:
        world = self.world
        world.scheduler.check_alive()
        with self.keys.calling(world, self.process, batch):
            self._handle(batch)

    def _handle(self, batch: Batch) -> None:
        world, count = self.world, len(batch.records)
        fails_at = world.chance.randrange(count) if world.strikes(Fault.HANDLER_FAILS) else None
        for number, record in enumerate(batch.records):
            world.scheduler.sleep(int(world.chance.uniform(0, 0.2) * SECOND))
            if is_poison(record.data) or number == fails_at:
                self._fail(batch, number)
        self._finish(batch, count)

    def _fail(self, batch: Batch, done: int) -> None:
        """Raises, so that the whole batch is retried, or reports a failure, with all records before it done."""
        if done and self.world.chance.random() < 0.5:
            self._finish(batch, done)
            batch.checkpoint(batch.records[done - 1])
            raise BatchItemsFailed("poison")
        raise HandlerFailed("poison")

    def _finish(self, batch: Batch, count: int) -> None:
        for record in batch.records[:count]:
            self.keys.done(self.world, self.process, batch.shard_id, record)
            self.world.ledger.finish_kept(batch.shard_id, record)

    def lease_acquired(
        self,
        shard_id: str,
        checkpoint: Checkpoint,  # noqa: ARG002 - the port's
        pending: PendingCheckpoint | None = None,  # noqa: ARG002 - the port's
    ) -> None:
        """Also after a late checkpoint has moved the row: records finished beyond it are delivered again."""
        self.keys.tenures.pop((self.process, shard_id), None)

    def lease_releasing(self, shard_id: str) -> None: ...

    def lease_lost(self, shard_id: str) -> None: ...

    def shard_ended(self, shard_id: str) -> None:
        ledger = self.world.ledger
        if not ledger.shards[shard_id].is_all_done and not ledger.is_moving(self.process, shard_id):
            self.world.fail(f"shard_ended of {shard_id} with unhandled records")


@dataclass(slots=True)
class SideBySideDestination:
    """It refuses at times, or keeps what it seems to have refused."""

    world: World
    process: Process
    keys: Keys

    def put(self, batch: SetAsideBatch) -> None:
        world, shard_id = self.world, batch.shard_id
        world.step(self.process)
        if world.strikes(Fault.LOST_REQUEST):
            raise DestinationRefused("could not be reached")
        is_answered = not world.strikes(Fault.LOST_RESPONSE)
        finished = world.ledger.shards[shard_id].finished
        for record in batch.records:
            place = world.ledger.shards[shard_id].index_of(record)
            if place not in finished:  # an abandoned call ended after all
                self.keys.place(world, self.process, shard_id, record)
            world.ledger.note_set_aside(shard_id, place, is_answered=is_answered)
            if is_answered:
                self.keys.done(world, self.process, shard_id, record)
        world.step(self.process)
        if not is_answered:
            raise DestinationRefused("no answer")


def give_up_side_by_side(
    seed: int,
    *,
    is_recorded: bool = False,
    without: frozenset[Fault] = BY_HAND,
    neighbours: Callable[[Random, Settings], Neighbours | None] = lambda *_: None,
    **given: Any,
) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    keys = Keys()
    wiring = Wiring(
        handler=lambda world, process: SideBySideHandler(world, process, keys),
        destination=lambda world, process: SideBySideDestination(world, process, keys),
    )
    settings = {**settings_of(seed), "parallelization_factor": Random(seed).choice((2, 3, 10)), **given}
    return play_giving_up(seed, wiring, settings, is_recorded=is_recorded, without=without, neighbours=neighbours)
