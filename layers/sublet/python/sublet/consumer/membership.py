"""A stay in the consumer group: from joining it to the release of the last lease."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import get_ident
from weakref import WeakSet

from sublet.consumer.buffer import Buffer
from sublet.consumer.events import Events
from sublet.consumer.program_end import AtProgramEnd
from sublet.consumer.pull_handler import PullHandler
from sublet.consumer.tenures import Tenures
from sublet.consumer.turn import Delivery
from sublet.consumer.watched_ports import Signs, watched
from sublet.consumer.world import World, limits_of
from sublet.decisions.consumer_definition import Options, by_definition
from sublet.decisions.failure_policy import Answer, Condition, Run, SetAside
from sublet.decisions.pull_events import Event, EventKind
from sublet.engine.calls.set_aside import SettingAside
from sublet.engine.exception_fields import exception_fields
from sublet.engine.process_health import LeftBehind
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
        self.events = Events(world.tasks, world.tell)
        self.buffer = Buffer(world.clock, world.tasks, limits_of(world.terms), self.events.tell)
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
        self._calls: set[object] = set()
        """Of callbacks, by who makes them."""
        self._ends_at: datetime | None = None
        """No longer is waited for the calls."""
        self._signs = Signs(world.clock, world.tasks, self.events.tell, self._fail)
        self._tasks: list[Task[None]] = []
        self._at_program_end = AtProgramEnd(self.end)
        self._tasks += [world.tasks.spawn(partial(self._run, after)), world.tasks.spawn(self._keep)]
        _LIVING.add(self)

    def disown(self) -> None:
        """In a forked child: the threads are not there, and what ends it is the parent's to do."""
        self.is_inherited = True
        self.buffer.disown()
        self._at_program_end.forget()

    def hold(self, hold: Hold, *, steals: bool) -> bool:
        """Have it go on for this one too; False: it is ending already. `steals`: it is to have its share from now on."""
        with self._lock:
            if self._ends_at is not None or self._stop.is_set():
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
            self._begin_to_end()
        self._end_without_calls()

    def let_go_and_wait(self, hold: Hold) -> None:
        """If it ends with that, every lease is released when this returns."""
        self.let_go(hold)
        self.wait_if_ending()

    def wait_if_ending(self) -> None:
        """Until every lease is released, unless somebody holds it."""
        if self._ends_at is not None or self._stop.is_set():
            self.end()

    def let_go_when_said(self, hold: Hold, at_most: timedelta) -> None:
        """As soon as something has been said of all that is out, or after so long."""
        moment = self._world.clock.steady() + at_most
        self._world.tasks.spawn(partial(self._let_go_by, hold, moment))

    def begin_call(self, caller: object) -> bool:
        """Whether a callback is to be called now: its call ends before the leases are released, unless that takes too long."""
        with self._lock:
            if self._ends_at is not None or not self.buffer.gives:
                return False
            self._calls.add(caller)
            return True

    def end_call(self, caller: object) -> None:
        with self._lock:
            self._calls.discard(caller)
        self._end_without_calls()

    def _begin_to_end(self) -> None:
        """Give out nothing any more. With the lock."""
        if self._ends_at is None:
            self._ends_at = self._world.clock.steady() + self._world.settings.drain_timeout
        self._calls.discard(get_ident())  # a callback of this thread: it would wait for itself
        self.buffer.give_no_more()

    def _end_without_calls(self) -> None:
        """Now, if it is to end and no call is under way, or one takes too long."""
        with self._lock:
            waits = self._ends_at is None or (self._calls and self._world.clock.steady() < self._ends_at)
        if not waits:
            self.buffer.stop()
            self._stop.set()

    def end(self) -> None:
        """Let calls that are under way end, checkpoint what is acknowledged, release every lease, and return then."""
        with self._lock:
            self._begin_to_end()
        self._end_without_calls()
        for task in self._tasks:
            task.result()
        self.events.wait()

    def left(self) -> tuple[LeftBehind, ...]:
        """The leases that it holds at this moment."""
        return () if self._process is None else self._process.left()

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
            joined = self._world.join(self._stop, on_problem=self._signs.failed)
            if joined is None:
                return
            settings, self._log = joined.terms.settings, joined.ports.log
            self.events.log, self.events.log_exceptions = joined.ports.log, settings.log_exceptions
            self._defined, self.buffer.limits = joined.defined, limits_of(joined.terms)
            if settings.on_failure is not None:
                self.buffer.set_aside = partial(_set_aside, joined.ports, settings)
            tenures = Tenures(self.events.tell)
            ports = watched(joined.ports, self._signs, self._compare, tenures)
            self._process = ConsumerProcess(
                ports, PullHandler(self.buffer, tenures), settings, self._stop, takes_share=False
            )
            self.buffer.poll_quiet_shards = self._process.poll_quiet_shards
            if self._steals:
                self._process.take_share()
            self._process.run()
        except BaseException as fault:  # noqa: BLE001 - raised to whoever pulls
            self.buffer.fail(fault)
        finally:
            self._stop.set()
            self.buffer.forget()
            self.events.finish()
            self.is_over.set()
            self._at_program_end.forget()

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
            if self._world.stopped.is_set():
                self.buffer.give_no_more()
            self._end_without_calls()
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
            self.events.tell(Event(EventKind.DEFINITION_CHANGED))

    def _fail(self, fault: BaseException) -> None:
        self.buffer.fail(fault)
        self._stop.set()

    def tell_callback_failed(self, shard_id: str, what: str, failure: BaseException) -> None:
        """To the log, with its traceback if that is wanted, and to all who listen."""
        if self._log is not None:
            how = self._world.settings.log_exceptions
            self._log.error("callback failed", shard_id=shard_id, what=what, **exception_fields(failure, how))
        self.events.tell(Event(EventKind.CALLBACK_FAILED, shard_id, what))


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
