"""A stay in the consumer group: from joining it to the release of the last lease."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from sublet.consumer.buffer import Buffer
from sublet.consumer.pull_handler import PullHandler
from sublet.consumer.turn import Delivery
from sublet.consumer.watched_ports import Signs, watched
from sublet.consumer.world import World, limits_of
from sublet.decisions.consumer_definition import Options, by_definition
from sublet.decisions.failure_policy import Condition, Run, SetAside
from sublet.decisions.pull_events import Event, EventKind
from sublet.engine.setting_aside import SettingAside
from sublet.errors import SettingsInConflict
from sublet.ports import Ports, Task
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings

LOOKS = timedelta(milliseconds=500)
"""Between two looks at what is to be checkpointed, and for signs of life: the shortest idle_heartbeat."""


class Membership:
    """The engine's process in threads of its own, with a buffer between it and whoever pulls. Begins at once; for one stay.

    Whatever ends the process is raised to whoever pulls. A program that ends without having ended it does so at its exit, so that
    what is acknowledged is checkpointed and the leases are free.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.listeners: list[Callable[[Event], object]] = [world.tell]
        self.buffer = Buffer(world.clock, world.tasks, limits_of(world.terms), self.tell)
        self.idle_heartbeat = 2 * world.settings.idle_poll_interval
        """The longest that any who pulls gave, and not sooner than a quiet shard is polled."""
        self.ends_by: datetime | None = None
        """When it ends by itself; None: it does not."""
        self.abandoned: list[Callable[[], None]] = []
        """What ends that which nobody has in hand any more."""
        self._defined: Options | None = None
        self._stop = world.tasks.signal()
        self._signs = Signs(world.clock, world.tasks, self.tell, self._fail)
        self._tasks: list[Task[None]] = [world.tasks.spawn(self._run), world.tasks.spawn(self._keep)]
        atexit.register(self.end)

    def leave(self) -> None:
        """Begin to end, and return at once."""
        self.buffer.stop()
        self._stop.set()

    def end(self) -> None:
        """Checkpoint what is acknowledged, release every lease, and return then."""
        self.leave()
        for task in self._tasks:
            task.result()

    def leave_when_said(self, at_most: timedelta) -> None:
        """Begin to end as soon as something has been said of all that is out, or after so long."""
        self._tasks.append(
            self._world.tasks.spawn(lambda: self._leave_by(self._world.clock.steady() + at_most))
        )

    def _leave_by(self, moment: datetime) -> None:
        while (left := moment - self._world.clock.steady()) > timedelta(0):
            said = self._world.tasks.signal()
            if self.buffer.has_none_out(said):
                break
            said.wait(left)
        self.leave()

    def _run(self) -> None:
        try:
            joined = self._world.join(self._stop)
            settings = joined.terms.settings
            self._defined, self.buffer.limits = joined.defined, limits_of(joined.terms)
            if settings.on_failure is not None:
                self.buffer.set_aside = partial(_set_aside, joined.ports, settings)
            ports = watched(joined.ports, self._signs, self._compare)
            ConsumerProcess(ports, PullHandler(self.buffer), settings, self._stop).run()
        except BaseException as fault:  # noqa: BLE001 - raised to whoever pulls
            self.buffer.fail(fault)
        finally:
            self._stop.set()
            self.buffer.stop()
            atexit.unregister(self.end)

    def _keep(self) -> None:
        """Checkpoint what is acknowledged at its interval, end what is abandoned, and see whether there is life."""
        clock = self._world.clock
        due_at = clock.steady() + self._world.settings.checkpoint_interval
        while not self._stop.wait(LOOKS):
            if clock.steady() >= due_at:
                self.buffer.checkpoint()
                due_at = clock.steady() + self._world.settings.checkpoint_interval
            if self.ends_by is not None and clock.steady() >= self.ends_by:
                self.leave()
            while self.abandoned:
                self.abandoned.pop()()
            self._signs.look(self.idle_heartbeat)

    def _compare(self, defined: Options | None) -> None:
        """The consumer's definition as it stands now with what this program was given."""
        if defined == self._defined:
            return
        self._defined = defined
        try:
            by_definition(self._world.terms, self._world.given, defined)
        except SettingsInConflict as conflict:
            self._fail(conflict)
        else:
            self.tell(Event(EventKind.DEFINITION_CHANGED))

    def _fail(self, fault: BaseException) -> None:
        self.buffer.fail(fault)
        self._stop.set()

    def tell(self, event: Event) -> None:
        """To all who listen."""
        for listener in list(self.listeners):
            listener(event)


def _set_aside(ports: Ports, settings: Settings, delivery: Delivery, reason: str) -> bool:
    """To the failure destination, as the engine does it with what a handler fails with for good."""
    given = SettingAside(
        ports.destination, ports.log, ports.metrics.put, ports.clock.now, settings, settings.stream,
        delivery.queue.shard_id, settings.worker_id or settings.application,
    )  # fmt: skip
    step = SetAside(Run(0, 1, delivery.attempt), Condition.TERMINATED, reason)
    return given.put([delivery.record], step, None, has_raised=False)
