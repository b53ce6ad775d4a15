"""A stay in the consumer group: from joining it to the release of the last lease."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from weakref import WeakSet

from sublet.consumer.buffer import Buffer
from sublet.consumer.pull_handler import PullHandler
from sublet.consumer.turn import Delivery
from sublet.consumer.watched_ports import Signs, watched
from sublet.consumer.world import World, limits_of
from sublet.decisions.consumer_definition import Options, by_definition
from sublet.decisions.failure_policy import Answer, Condition, Run, SetAside
from sublet.decisions.pull_events import Event, EventKind
from sublet.engine.exception_fields import exception_fields
from sublet.engine.setting_aside import SettingAside
from sublet.errors import SettingsInConflict
from sublet.ports import Log, Ports, Signal, Task
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings

LOOKS = timedelta(milliseconds=500)
"""Between two looks at what is to be checkpointed, and for signs of life: the shortest idle_heartbeat."""


@dataclass(slots=True, eq=False)
class Hold:
    """Somebody for whom a stay goes on: a `with` block, or a call outside of one.

    until  it has let go by itself then; None: not before it says so
    """

    until: datetime | None = None


class Membership:
    """The engine's process in threads of its own, with a buffer between it and whoever pulls. Begins at once, or when the stay
    before it has ended; for one stay, which goes on for as long as somebody holds it.

    Whatever ends the process is raised to whoever pulls. A program that ends without having ended it does so at its exit, so that
    what is acknowledged is checkpointed and the leases are free.
    """

    def __init__(self, world: World, first: Hold, *, steals: bool, after: Signal | None = None) -> None:
        self._world = world
        self._holds = {first}
        self._lock = world.tasks.lock()
        self._steals = steals
        self._process: ConsumerProcess | None = None
        self._log: Log | None = None
        self.listeners: list[Callable[[Event], object]] = [world.tell]
        self.buffer = Buffer(world.clock, world.tasks, limits_of(world.terms), self.tell)
        self.idle_heartbeat = 2 * world.settings.idle_poll_interval
        """The longest that any who pulls gave, and not sooner than a quiet shard is polled."""
        self.is_over = world.tasks.signal()
        """Set when every lease is released."""
        self.is_inherited = False
        """This process was forked from the one whose stay it is."""
        self.abandoned: list[Callable[[], None]] = []
        """What ends that which nobody has in hand any more."""
        self._defined: Options | None = None
        self._stop = world.tasks.signal()
        self._signs = Signs(world.clock, world.tasks, self.tell, self._fail)
        self._tasks: list[Task[None]] = [
            world.tasks.spawn(partial(self._run, after)),
            world.tasks.spawn(self._keep),
        ]
        atexit.register(self.end)
        _LIVING.add(self)

    def disown(self) -> None:
        """In a forked child: the threads are not there, and what ends it is the parent's to do."""
        self.is_inherited = True
        self.buffer.disown()
        atexit.unregister(self.end)

    def hold(self, hold: Hold, *, steals: bool) -> bool:
        """Have it go on for this one too; False: it is ending already. `steals`: it is to have its share from now on."""
        with self._lock:
            if self._stop.is_set():
                return False
            self._holds.add(hold)
            self._steals = self._steals or steals
        if steals and self._process is not None:
            self._process.take_share()
        return True

    def let_go(self, hold: Hold) -> None:
        """Begin to end if nobody else holds it, and return at once."""
        with self._lock:
            self._holds.discard(hold)
            if self._holds:
                return
            self._stop.set()
        self.leave()

    def let_go_and_wait(self, hold: Hold) -> None:
        """If it ends with that, every lease is released when this returns."""
        self.let_go(hold)
        if self._stop.is_set():
            self.end()

    def let_go_when_said(self, hold: Hold, at_most: timedelta) -> None:
        """As soon as something has been said of all that is out, or after so long."""
        moment = self._world.clock.steady() + at_most
        self._world.tasks.spawn(partial(self._let_go_by, hold, moment))

    def leave(self) -> None:
        """Begin to end, and return at once."""
        self.buffer.stop()
        self._stop.set()

    def end(self) -> None:
        """Checkpoint what is acknowledged, release every lease, and return then."""
        self.leave()
        for task in self._tasks:
            task.result()

    def _let_go_by(self, hold: Hold, moment: datetime) -> None:
        while (left := moment - self._world.clock.steady()) > timedelta(0):
            said = self._world.tasks.signal()
            if self.buffer.has_none_out(said):
                break
            said.wait(left)
            self.buffer.leave(said)
        self.let_go(hold)

    def _run(self, after: Signal | None) -> None:
        try:
            while not (after is None or self._stop.is_set() or after.wait(LOOKS)):
                pass  # the stay before goes by the same worker id, so that its leases would look like ours
            joined = self._world.join(self._stop)
            settings, self._log = joined.terms.settings, joined.ports.log
            self._defined, self.buffer.limits = joined.defined, limits_of(joined.terms)
            if settings.on_failure is not None:
                self.buffer.set_aside = partial(_set_aside, joined.ports, settings)
            ports = watched(joined.ports, self._signs, self._compare)
            self._process = ConsumerProcess(
                ports, PullHandler(self.buffer), settings, self._stop, takes_share=False
            )
            if self._steals:
                self._process.take_share()
            self._process.run()
        except BaseException as fault:  # noqa: BLE001 - raised to whoever pulls
            self.buffer.fail(fault)
        finally:
            self._stop.set()
            self.buffer.stop()
            self.is_over.set()
            atexit.unregister(self.end)

    def _keep(self) -> None:
        """Checkpoint what is acknowledged at its interval, end what is abandoned, and see whether there is life."""
        clock = self._world.clock
        due_at = clock.steady() + self._world.settings.checkpoint_interval
        while not self._stop.wait(LOOKS):
            if clock.steady() >= due_at:
                self.buffer.checkpoint()
                due_at = clock.steady() + self._world.settings.checkpoint_interval
            with self._lock:
                late = [one for one in self._holds if one.until is not None and clock.steady() >= one.until]
            for hold in late:
                self.let_go(hold)
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

    def tell_callback_failed(self, shard_id: str, what: str, failure: BaseException) -> None:
        """To the log, with its traceback if that is wanted, and to all who listen."""
        if self._log is not None:
            how = self._world.settings.log_exceptions
            self._log.error("callback failed", shard_id=shard_id, what=what, **exception_fields(failure, how))
        self.tell(Event(EventKind.CALLBACK_FAILED, shard_id, what))

    def tell(self, event: Event) -> None:
        """To all who listen. What one of them raises is logged: it may be the thread of a lease that tells it."""
        for listener in list(self.listeners):
            try:
                listener(event)
            except (Exception, SystemExit) as failure:  # noqa: BLE001 - whatever the user's code raises
                if self._log is not None:
                    how = self._world.settings.log_exceptions
                    self._log.error("on_event failed", event=event.kind, **exception_fields(failure, how))


_LIVING: WeakSet[Membership] = WeakSet()


def _disown_all() -> None:
    for membership in list(_LIVING):
        membership.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def _set_aside(ports: Ports, settings: Settings, delivery: Delivery, reason: str) -> bool:
    """To the failure destination, as the engine does it with what a handler fails with for good."""
    given = SettingAside(
        ports.destination, ports.log, ports.metrics.put, ports.clock.now, settings, settings.stream,
        delivery.queue.shard_id, settings.worker_id or settings.application,
    )  # fmt: skip
    step = SetAside(Run(0, 1, delivery.attempt), Condition.TERMINATED, reason)
    return given.put([delivery.record], step, Answer(0))
