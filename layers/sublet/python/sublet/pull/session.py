"""A session in the consumer group: from joining it to the release of the last lease."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import get_ident
from weakref import WeakSet

from sublet.decisions.pull.consumer_definition import Options, by_definition
from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.decisions.session.failure_policy import Answer, Condition, Run, SetAside
from sublet.decisions.session.window import handler_backoff
from sublet.engine.calls.set_aside import SettingAside
from sublet.engine.exception_fields import exception_fields
from sublet.engine.process_health import LeftBehind
from sublet.errors import SettingsInConflict
from sublet.ports import Log, Ports, Signal, Task
from sublet.pull.buffer import Buffer
from sublet.pull.environment import Environment, limits_of, wait_for_any
from sublet.pull.events import LeaseEvents, SessionEvents
from sublet.pull.prefetch import Delivery
from sublet.pull.pull_handler import PullHandler
from sublet.pull.record import Record
from sublet.pull.service_contact import ServiceContact
from sublet.pull.watched_ports import watched
from sublet.reading.several_streams import settings_of_stream
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings
from sublet.settings.text import duration_text
from sublet.system.at_exit import AtExit

CHECK_INTERVAL = timedelta(milliseconds=500)
"""How often a session checks what to checkpoint, what to end, and whether AWS answers. Also the shortest
idle_heartbeat.
"""


@dataclass(slots=True, eq=False)
class SessionHold:
    """Keeps a session going. A `with` block has one, and so has each fetch or consume outside a block.

    until  the moment, by the steady clock, at which the session drops it; None: only its owner drops it
    """

    until: datetime | None = None


class GroupSession:
    """Runs the engine's process in its own threads, with a buffer between it and the program. It begins at once, or
    when the previous session has ended, and continues while it has a Ref.

    An error that ends the engine is raised in the program's next call. If the program exits without ending the session,
    the exit ends it, so that acknowledged records are checkpointed and the leases are released.
    """

    def __init__(
        self, environment: Environment, first: SessionHold, *, steals: bool, after: Signal | None = None
    ) -> None:
        self._environment = environment
        self._lock = environment.tasks.lock()
        """Guards `_refs`, `_steals`, `_process`, `_calls`, `_ends_at`, `_idle_heartbeat` and `_defined`."""
        self._refs = {first}
        self._steals = steals
        self._process: ConsumerProcess | None = None
        self._calls: set[object] = set()
        """Threads or tasks in which a callback is running."""
        self._ends_at: datetime | None = None
        """Until when to wait for callbacks. Set when the session begins to end."""
        self._idle_heartbeat = 2 * environment.settings.idle_poll_interval
        """The longest of all requests, and at least long enough for a quiet shard to be polled."""
        self._defined: Options | None = None
        self.abandoned: deque[Callable[[], None]] = deque()
        """Functions that end iterators which the program dropped without close(). No lock guards this: garbage
        collection and signal handlers append at any moment, which a deque allows.
        """
        self._log: Log | None = None
        self.events = SessionEvents(environment.tasks, environment.tell)
        limits = limits_of(environment.terms)
        self.buffer = Buffer(environment.clock, environment.tasks, limits, self.events.tell)
        self.is_over = environment.tasks.signal()
        """Set when every lease is released."""
        self.is_inherited = False
        """True in a process that was forked from the one that started the session."""
        self._stop = environment.tasks.signal()
        self._signs = ServiceContact(
            environment.clock,
            environment.tasks,
            self.events.tell,
            self._fail,
            environment.settings.refusal_patience,
            is_of_several=environment.settings.streams is not None,
        )
        self._at_exit = AtExit(self.end)
        self._tasks: list[Task[None]] = []
        self._tasks += [environment.tasks.spawn(call) for call in (partial(self._run, after), self._keep)]
        _LIVING.add(self)

    def disown(self) -> None:
        """Called in a forked child, which has none of the threads: the parent ends the session."""
        self.is_inherited = True
        self.buffer.disown()
        self._at_exit.forget()

    def add_ref(self, ref: SessionHold, *, steals: bool) -> bool:
        """Keep the session going. Returns False if it is already ending. With `steals`, it takes its fair share of the
        leases from now on.
        """
        with self._lock:
            if self._is_ending:
                return False
            self._refs.add(ref)
            self._steals = self._steals or steals
            process = self._process
        if steals and process is not None:
            process.take_share()
        return True

    def drop_ref(self, ref: SessionHold) -> None:
        """Drop the Ref without waiting. If it was the last, the session begins to end."""
        with self._lock:
            self._refs.discard(ref)
            if self._refs:
                return
            self._begin_to_end()
        self._end_without_calls()

    def drop_ref_and_wait(self, ref: SessionHold) -> None:
        """Drop the Ref. If that ends the session, return when every lease is released."""
        self.drop_ref(ref)
        self.wait_if_ending()

    def drop_ref_when_acknowledged(self, ref: SessionHold, at_most: timedelta) -> None:
        """Without waiting, have the Ref dropped as soon as no record is out, or after `at_most`."""
        moment = self._environment.clock.steady() + at_most
        self._environment.tasks.spawn(partial(self._drop_ref_by, ref, moment))

    def _drop_ref_by(self, ref: SessionHold, moment: datetime) -> None:
        while (left := moment - self._environment.clock.steady()) > timedelta(0):
            acknowledged = self._environment.tasks.signal()
            if self.buffer.has_no_outstanding(acknowledged):
                break
            acknowledged.wait(left)
            self.buffer.unsubscribe(acknowledged)
        self.drop_ref(ref)

    def wait_if_ending(self) -> None:
        """Returns when every lease is released, or at once if the session has a Ref."""
        with self._lock:
            is_ending = self._is_ending
        if is_ending:
            self.end()

    def expect_signs_within(self, idle_heartbeat: timedelta) -> None:
        """Send an event after this long without a sign of life, or after the longest time that any request asked
        for.
        """
        with self._lock:
            self._idle_heartbeat = max(self._idle_heartbeat, idle_heartbeat)

    def begin_call(self, caller: object) -> bool:
        """Returns whether a callback may be called now. Leases are kept until the call ends, for `drain_timeout` at
        most.
        """
        with self._lock:
            if self._ends_at is not None or not self.buffer.is_open:
                return False
            self._calls.add(caller)
            return True

    def end_call(self, caller: object) -> None:
        with self._lock:
            self._calls.discard(caller)
        self._end_without_calls()

    @property
    def _is_ending(self) -> bool:
        return self._ends_at is not None or self._stop.is_set()

    def _begin_to_end(self) -> None:
        """Hand out nothing more. The caller holds the lock."""
        if self._ends_at is None:
            self._ends_at = self._environment.clock.steady() + self._environment.settings.drain_timeout
        self._calls.discard(get_ident())  # a callback that ends the session would wait for itself
        self.buffer.stop_delivering()

    def _end_without_calls(self) -> None:
        """End now if the session is ending and either no callback is running or they have taken too long."""
        with self._lock:
            waits = self._ends_at is None or (self._calls and self._environment.clock.steady() < self._ends_at)
        if not waits:
            self.buffer.stop()
            self._stop.set()

    def end(self) -> None:
        """Wait for callbacks in progress, checkpoint acknowledged records and release every lease; then return."""
        with self._lock:
            self._begin_to_end()
        self._end_without_calls()
        for task in self._tasks:
            task.result()
        self.events.wait()

    def left(self) -> tuple[LeftBehind, ...]:
        """The leases that the session holds now."""
        process = self._process  # without the lock, which a forked child or an interrupted thread may not get
        return () if process is None else process.left()

    def _run(self, after: Signal | None) -> None:
        try:
            if after is not None:
                # The previous session has the same worker id, so its leases would look like ours.
                wait_for_any(self._environment.tasks, (after, self._stop))
            joined = self._environment.join(self._stop, on_problem=self._signs.failed)
            if joined is None:
                return
            settings, self._log = joined.terms.settings, joined.ports.log
            self.events.log, self.events.log_exceptions = joined.ports.log, settings.log_exceptions
            self.buffer.limits = limits_of(joined.terms)
            lease_events = LeaseEvents(self.events.tell)
            ports = watched(joined.ports, self._signs, self._compare, lease_events)
            handler = PullHandler(self.buffer, lease_events)
            process = ConsumerProcess(ports, handler, settings, self._stop, takes_share=False)
            if settings.on_failure is not None:
                self.buffer.set_aside = partial(_set_aside, process.ports, settings)
            with self._lock:
                self._defined, self._process, steals = joined.defined, process, self._steals
            self.buffer.poll_quiet_shards = process.poll_quiet_shards
            if steals:
                process.take_share()
            process.run()
        except BaseException as fault:  # noqa: BLE001 - raised in the program's next call
            self.buffer.fail(fault)
        finally:
            self._stop.set()
            self.buffer.forget()
            self.events.finish()
            self.is_over.set()
            self._at_exit.forget()

    def _keep(self) -> None:
        """Checkpoint acknowledged records when due, end what was abandoned or has expired, and look for signs of
        life.
        """
        clock = self._environment.clock
        due_at = clock.steady() + self._environment.settings.checkpoint_interval
        while not self._stop.wait(CHECK_INTERVAL):
            if clock.steady() >= due_at:
                self.buffer.checkpoint()
                due_at = clock.steady() + self._environment.settings.checkpoint_interval
            with self._lock:
                expired = [ref for ref in self._refs if ref.until is not None and clock.steady() >= ref.until]
                idle_heartbeat = self._idle_heartbeat
            for ref in expired:
                self.drop_ref(ref)
            while self.abandoned:
                self.abandoned.pop()()
            if self._environment.stopped.is_set():
                self.buffer.stop_delivering()
            self._end_without_calls()
            self._signs.look(idle_heartbeat)

    def _compare(self, defined: Options | None) -> None:
        """Compare the consumer's current definition with this program's options."""
        with self._lock:
            if defined == self._defined:
                return
            self._defined = defined
        try:
            by_definition(self._environment.terms, self._environment.given, defined)
        except SettingsInConflict as conflict:
            self._fail(conflict)
        else:
            self.events.tell(Event(EventKind.DEFINITION_CHANGED))

    def _fail(self, fault: BaseException) -> None:
        self.buffer.fail(fault)
        self._stop.set()

    def callback_failed(self, record: Record, failure: BaseException) -> None:
        """Put the record back for `handler_backoff`, log why, and send an event. Does nothing if it is no longer
        out.
        """
        settings, shard_id = self._environment.settings, record.shard_id
        again_after = handler_backoff(record.attempt, settings)
        if not record.nak(again_after):
            return
        what = f"{type(failure).__name__}; {record!r} comes again after {duration_text(again_after)}"
        if self._log is not None:
            fields = exception_fields(failure, settings.log_exceptions)
            self._log.error("callback failed", shard_id=shard_id, what=what, **fields)
        self.events.tell(Event(EventKind.CALLBACK_FAILED, shard_id, what))


_LIVING: WeakSet[GroupSession] = WeakSet()


def _disown_all() -> None:
    for session in list(_LIVING):
        session.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def _set_aside(ports: Ports, settings: Settings, delivery: Delivery, reason: str) -> bool:
    """Give the record to the failure destination, as the engine does with a record that it gives up."""
    settings = settings_of_stream(settings, ports, delivery.queue.shard_id)
    given = SettingAside(
        ports.destination,
        ports.log,
        partial(ports.metrics.put, shard_id=delivery.queue.shard_id),
        ports.clock.now,
        settings,
        settings.stream,
        delivery.queue.shard_id,
        settings.worker_id or settings.application,
    )
    step = SetAside(Run(0, 1, delivery.attempt), Condition.TERMINATED, reason)
    return given.put([delivery.record], step, Answer(0))
