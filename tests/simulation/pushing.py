"""Worlds whose workers read by push. They keep every promise of a polling fleet, through cut, refused, late and
taken-over subscriptions, beside Java's workers, which poll.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sublet.decisions.session.push import PushEnd
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.ports import Pushed, Pushes, ShardSubscription, Unanswered
from sublet.settings import Mode
from sublet.testing.simulation.pushes import PushedWorlds
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import Process
from sublet.testing.simulation.world import World

from tests.simulation.mutations import UNCHANGED, Mutation
from tests.simulation.simulation import DAYS_OFF, draw_java

Mistake = Callable[[Pushes], Pushes]


def push(
    seed: int,
    *,
    is_recorded: bool = False,
    mutation: Mutation = UNCHANGED,
    mistake: Mistake = lambda real: real,
) -> Result:
    """Run this seed's world to its end, or to the first broken invariant. `mistake`: made between the workers and
    Kinesis.
    """
    worlds = PushedWorlds()

    def pushes(world: World, process: Process) -> Pushes:
        return mistake(worlds(world, process))

    return play(
        seed,
        is_recorded=is_recorded,
        wiring=replace(mutation, pushes=pushes),
        neighbours=draw_java,
        days_off=DAYS_OFF,
        mode=Mode.CONTINUOUS,
    )


@dataclass(frozen=True, slots=True)
class RenewedAtLatest:
    """Renews each subscription at the tip."""

    real: Pushes
    begun: set[str] = field(default_factory=set)

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        again = shard_id in self.begun and position.type is IteratorType.AFTER_SEQUENCE_NUMBER
        self.begun.add(shard_id)
        return self.real.subscribe(shard_id, ReadPosition(IteratorType.LATEST) if again else position)


@dataclass(frozen=True, slots=True)
class AheadOfItself:
    """Says of a cut event that it has come: the next subscription begins behind records that were not read."""

    real: Pushes

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        answer = self.real.subscribe(shard_id, position)
        return answer if isinstance(answer, PushEnd | Unanswered) else _Emptied(answer)


@dataclass(slots=True)
class _Emptied:
    real: ShardSubscription
    taken: int = 0

    def next(self) -> Pushed | PushEnd | Unanswered:
        came = self.real.next()
        self.taken += 1
        if isinstance(came, PushEnd | Unanswered) or self.taken % 5:
            return came
        return came._replace(page=came.page._replace(records=(), data_bytes=0))

    def wait(self, longest: timedelta) -> bool:
        return self.real.wait(longest)

    @property
    def has_more(self) -> bool:
        return self.real.has_more

    def interrupt(self) -> None:
        self.real.interrupt()

    def close(self) -> None:
        self.real.close()
