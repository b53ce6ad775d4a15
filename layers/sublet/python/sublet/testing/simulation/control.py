"""An operator's control in a world. Each process reads it, and a check sees whether our processes obey it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sublet.decisions.session.control import READ_EVERY, pause_of
from sublet.errors import LeaseTableUnavailable
from sublet.protocol.control import Control
from sublet.testing.memory import MemoryControlStore
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Process
from sublet.testing.simulation.weather import Fault

if TYPE_CHECKING:
    from sublet.testing.simulation.world import World

OBEYS_WITHIN = READ_EVERY + timedelta(seconds=3)
"""How long a process may still begin handler calls after an order, or after its own start, since reading the control
takes a moment too.
"""


class ControlOfWorld:
    """What the operator has ordered, and which processes could not read it."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.store = MemoryControlStore(now)
        self.refused: set[Process] = set()

    def check_call(self, world: World, process: Process, shard_id: str) -> None:
        """Called when a handler call begins. Fails the world if the process has known for too long, or could have
        known, that the shard is paused.
        """
        now = world.scheduler.now_us
        pause = pause_of(self.store.control(), shard_id, world.scheduler.now())
        if pause is None or pause.until is not None or process.is_java:
            return
        since = now - (world.scheduler.now() - pause.since) // MICROSECOND
        begins = max(since, process.started_at)
        has_been_frozen = process.frozen_until >= begins
        if now - begins > OBEYS_WITHIN // MICROSECOND and not has_been_frozen and process not in self.refused:
            world.fail(f"{shard_id} is handled {(now - begins) / SECOND:.1f} s after it was paused")


class SimControlStore:
    """The ControlStore port of one process, which only reads."""

    def __init__(self, world: World, process: Process, of_world: ControlOfWorld) -> None:
        self._world = world
        self._process = process
        self._of_world = of_world

    def control(self) -> Control:
        self._world.step(self._process)
        if self._world.strikes(Fault.LOST_REQUEST):
            self._of_world.refused.add(self._process)
            raise LeaseTableUnavailable("could not be reached for the control")
        return self._of_world.store.control()

    @property
    def answered_at(self) -> datetime:
        return self._world.scheduler.now()

    def keep_control(self, control: Control) -> bool:  # noqa: ARG002
        self._world.fail("a worker writes the control")
        return False

    def replace_unreadable(self) -> None:
        self._world.fail("a worker replaces the control")
