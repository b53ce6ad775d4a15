"""SubscribeToShard in one seed's world: subscriptions that come late, are cut, and end too early; a consumer that is
deleted.

Takeovers, renewals and zombies need no help: workers that are suspended or lose their leases keep their subscriptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from sublet.decisions.session.push import PushEnd
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import StreamUnavailable
from sublet.ports import Pushed, Pushes, ShardSubscription, Unanswered
from sublet.testing.memory.pushes import MemoryFanOut
from sublet.testing.simulation.scheduler import SECOND, Process, SimTasks
from sublet.testing.simulation.world import World

NO_ANSWER = Unanswered("the answer was lost")


@dataclass(frozen=True, slots=True)
class Troubles:
    """The probability of each trouble at each opportunity, until the faults stop."""

    refused: float
    """The call fails, before the subscription begins or after: then it lives without a reader."""
    cut: float
    ended: float
    """The subscription ends normally, after any event."""
    no_continuation: float
    """An event says that the shard has ended, although it has not. Then the subscription ends."""
    late: float
    """An event takes up to a minute."""
    deleted_at: int | None
    """When the consumer is deleted, in microseconds."""


def draw_troubles(chance: Random, calm_from: int) -> Troubles:
    def rate(highest: float) -> float:
        return highest * chance.random() ** 2 if chance.random() < 0.7 else 0

    return Troubles(
        refused=rate(0.3),
        cut=rate(0.2),
        ended=rate(0.3),
        no_continuation=rate(0.1),
        late=rate(0.1),
        deleted_at=int(chance.uniform(0, calm_from)) if chance.random() < 0.1 else None,
    )


@dataclass
class PushedWorlds:
    """The wiring's `pushes`: one consumer for all workers of a world."""

    consumers: dict[int, tuple[MemoryFanOut, Troubles, Random]] = field(default_factory=dict)

    def __call__(self, world: World, process: Process) -> Pushes:
        if id(world) not in self.consumers:
            chance = Random(world.seed)
            consumer = MemoryFanOut(
                world.stream,
                world.scheduler,
                SimTasks(world.scheduler, process),
                records_max=chance.choice((1, 3, 20, 500)),
                looks_every=timedelta(seconds=chance.choice((0.5, 1, 2))),
            )
            troubles = draw_troubles(chance, world.weather.calm_from)
            self.consumers[id(world)] = consumer, troubles, chance
        return SimPushes(world, process, *self.consumers[id(world)])


@dataclass(frozen=True, slots=True)
class SimPushes:
    """The Pushes port of one process."""

    world: World
    process: Process
    consumer: MemoryFanOut
    troubles: Troubles
    chance: Random

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        world = self.world
        world.step(self.process)
        world.opened(shard_id)
        if position.type is IteratorType.AT_SEQUENCE_NUMBER and self.process in world.items:
            world.looked_at[shard_id] = world.scheduler.now_us
        deleted_at = self.troubles.deleted_at
        self.consumer.is_registered = deleted_at is None or world.scheduler.now_us < deleted_at
        if self.strikes(self.troubles.refused / 4):
            raise StreamUnavailable("SubscribeToShard: no answer to GetShardIterator")
        if self.strikes(self.troubles.refused):
            return NO_ANSWER
        answer = self.consumer.subscribe(shard_id, position)
        world.step(self.process)
        if isinstance(answer, PushEnd | Unanswered):
            return answer
        if self.strikes(self.troubles.refused):
            world.note(self.process.name, f"does not hear that it is subscribed to {shard_id[-4:]}")
            return NO_ANSWER
        world.note(self.process.name, f"is subscribed to {shard_id[-4:]} from {position}")
        return SimSubscription(self, answer)

    def strikes(self, rate: float) -> bool:
        is_calm = self.world.scheduler.now_us >= self.world.weather.calm_from
        return not is_calm and self.chance.random() < rate


@dataclass(slots=True)
class SimSubscription:
    """The ShardSubscription port."""

    pushes: SimPushes
    real: ShardSubscription
    end: PushEnd | None = None

    def wait(self, longest: timedelta) -> bool:
        if self.end is not None:
            return True
        has_come = self.real.wait(longest)
        if has_come and self.pushes.strikes(self.pushes.troubles.late):
            self.pushes.world.scheduler.sleep(int(self.pushes.chance.uniform(1, 60) * SECOND))
        return has_come

    def next(self) -> Pushed | PushEnd | Unanswered:
        pushes = self.pushes
        pushes.world.step(pushes.process)
        if self.end is not None:
            return self.end
        came = self.real.next()
        if pushes.strikes(pushes.troubles.cut):
            return PushEnd.CUT  # what came is lost on the way
        if isinstance(came, PushEnd | Unanswered):
            return came
        if pushes.strikes(pushes.troubles.ended):
            self.end = PushEnd.LAPSED
        if pushes.strikes(pushes.troubles.no_continuation):
            self.end = PushEnd.LAPSED
            return came._replace(continuation=None)
        return came

    @property
    def has_more(self) -> bool:
        return self.end is None and self.real.has_more

    def interrupt(self) -> None:
        self.real.interrupt()

    def close(self) -> None:
        self.real.close()
