"""The sessions of a consumer that is pulled from, and which requests share one. Used by plain Python and asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.pull.consumer_definition import by_definition, options_of, updated
from sublet.decisions.pull.pull_events import Event
from sublet.decisions.pull.pull_request import (
    BufferDemand,
    BufferOptions,
    FetchProgress,
    PullTimeouts,
    buffering_of,
    fetch_of,
    patience_of,
)
from sublet.decisions.status.fleet_status import FleetFindings, FleetStatus, fleet_status
from sublet.decisions.status.work_distribution import WorkDistribution
from sublet.decisions.streams.stream_status import gone_streams
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.adoption import check_adoption
from sublet.engine.position_times import positions
from sublet.engine.process_health import LeftBehind
from sublet.errors import SettingsError, StreamNotAdopted
from sublet.ports import Ports
from sublet.protocol.stream_identity import StreamArn
from sublet.pull.environment import Environment
from sublet.pull.interrupts_and_forks import WHY
from sublet.pull.pull_state import PullRequest
from sublet.pull.session import GroupSession, SessionHold
from sublet.pull.subscription import Subscription
from sublet.runtimes.ending import StopSignals, stop_at_signals

PULLS_AFTER_STOP = timedelta(seconds=1)
"""A program that still asks for records this long after it was stopped gets an error, because it would ask for ever."""


@dataclass(slots=True)
class Group:
    """A consumer's group sessions, one after another: two at once would have the same worker id. A request that begins
    during a session shares it. The next session begins when the previous one has released its leases.

    entered  the session of a `with` block, which every request inside the block shares
    """

    environment: Environment
    entered: GroupSession | None = field(default=None, init=False)
    _entered_ref: SessionHold = field(default_factory=SessionHold, init=False)
    _latest: GroupSession | None = field(default=None, init=False)
    _lock: AbstractContextManager[object] = field(init=False)
    """Guards writes of `_latest`, from any thread. Only the thread that enters the block uses the rest."""
    _told: FleetStatus | None = field(default=None, init=False)
    _seen_stopped_at: datetime | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._lock = self.environment.tasks.lock()

    def create(self) -> None:
        """Create the tables and the definition if they do not exist. Raises SettingsInConflict if the definition
        differs.
        """
        environment, ports = self.environment, self._checked(may_create=True)
        if not ports.sightings.define(options_of(environment.terms), None):
            by_definition(environment.terms, environment.given, ports.sightings.load().definition)

    def update(self) -> None:
        """Replace the definition by this program's options. Raises LeaseTableNotFound, and SettingsError for an option
        that cannot change.
        """
        environment, ports = self.environment, self._checked()
        while True:
            defined = ports.sightings.load().definition
            if ports.sightings.define(updated(defined, environment.terms, environment.given), defined):
                return

    def create_or_update(self) -> None:
        self.environment.compose(self.environment.tasks.signal(), may_create=True)
        self.update()
        self.create()

    def _checked(self, *, may_create: bool = False) -> Ports:
        """The ports. Raises StreamNotAdopted if the tables belong to another stream, before anything is changed."""
        ports, settings = self.environment.compose(self.environment.tasks.signal(), may_create=may_create)
        if ports.streams is not None:  # with several streams, a lease's key names its stream
            return ports
        scan, shards, remembered = ports.table.scan(), ports.stream.list_shards(), ports.sightings.load()
        check_adoption(ports, settings, remembered, scan, shards, ports.clock.now())
        return ports

    def delete(self) -> None:
        """Delete the leases, their positions and the definition. Other programs that pull from it get
        LeaseTableNotFound.
        """
        if self.environment.account is None:
            raise SettingsError("account", None, "required to delete tables: ports cannot delete them")
        account, settings = self.environment.account(), self.environment.settings
        self.leave()
        known = account.stream_of(settings.application)
        if known is not None and StreamArn.parse(known.arn).stream != settings.stream:
            raise StreamNotAdopted(
                f"consumer {settings.application} belongs to stream {known}, not {settings.stream}; delete it there"
            )
        account.delete_tables(settings)

    def info(self, *, cached: bool, with_positions: bool) -> FleetStatus:
        """The application's state. `cached`: return what the last call returned, if there was one."""
        if self._told is None or not cached:
            ports, settings = self.environment.compose(self.environment.tasks.signal())
            scan, remembered = ports.table.scan(), ports.sightings.load()
            found = positions(scan.leases, ports) if with_positions else {}
            stopped = ControlWatch(ports).pauses(scan.leases)
            gone = gone_streams(remembered.streams)
            known = FleetFindings(remembered.sightings, remembered.unread, positions=found, paused=stopped, gone=gone)
            self._told = fleet_status(scan, ports.clock.now(), settings, known)
        return self._told

    def distribution(self, *, cached: bool) -> WorkDistribution:
        """How the shards and their bytes are distributed, by worker and by group of workers."""
        return self.info(cached=cached, with_positions=False).distribution

    def join(self) -> None:
        """Enter a `with` block."""
        if self.entered is not None:
            raise RuntimeError(
                "this consumer has joined its group already: leave its `with` block before you enter another"
            )
        self.entered = self._session(self._entered_ref, steals=True)

    def leave(self) -> None:
        """Leave the `with` block. Returns when the leases are released."""
        self.begin_to_leave()()

    def begin_to_leave(self) -> Callable[[], None]:
        """Start to leave the `with` block, without waiting. Returns a function that waits until the leases are
        released.
        """
        entered, self.entered = self.entered, None
        if entered is None or entered.is_inherited:
            return _no_wait
        entered.drop_ref(self._entered_ref)
        return entered.wait_if_ending

    def _session(self, ref: SessionHold, *, steals: bool) -> GroupSession:
        """The current session with this Ref added, or a new session."""
        if self._latest is not None and self._latest.is_inherited:
            raise RuntimeError(WHY)
        with self._lock:
            before = self._latest
            if before is not None and before.add_ref(ref, steals=steals):
                return before
            after = None if before is None else before.is_over
            self._latest = GroupSession(self.environment, ref, steals=steals, after=after)
            return self._latest

    def left(self) -> tuple[LeftBehind, ...]:
        """The leases that the current session holds now."""
        return () if self._latest is None else self._latest.left()

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT stop the consumer while the block runs. A second signal, or the end of
        `drain_timeout`, ends the process at once.
        """
        environment = self.environment
        stops = StopSignals(environment.stopped, environment.stopped, environment.tasks.signal())
        restore = stop_at_signals(stops, environment.settings.drain_timeout, environment.tasks, self.left)
        try:
            yield
        finally:
            stops.is_over.set()
            restore()

    def _check_stopped(self) -> None:
        if not self.environment.stopped.is_set():
            return
        now = self.environment.clock.steady()
        if self._seen_stopped_at is None:
            self._seen_stopped_at = now
        if now - self._seen_stopped_at >= PULLS_AFTER_STOP:
            raise RuntimeError(
                "this consumer was stopped and has no more records: leave its `with` block, by `while not "
                "consumer.stopped:`"
            )

    # Once the consumer is stopped, these two return no records, and raise RuntimeError if the program keeps asking.

    def fetch(
        self,
        max_records: int | None,
        max_bytes: int | None,
        expires: timedelta | float,
        idle_heartbeat: timedelta | float | None,
    ) -> Subscription:
        """Begin a `fetch`. Outside of a `with` block it never steals."""
        patience = patience_of(expires, idle_heartbeat)
        return self._pull(fetch_of(max_records, max_bytes), patience, expires=True)

    def messages(
        self,
        buffering: BufferOptions,
        *,
        acks: bool = False,
        on_event: Callable[[Event], object] | None = None,
    ) -> Subscription:
        """Begin a `messages`, or the pull of a `consume`. `acks`: see PullRequest."""
        return self._pull(*buffering_of(**buffering), acks=acks, on_event=on_event)

    def _pull(
        self,
        wants: FetchProgress | BufferDemand,
        patience: PullTimeouts,
        *,
        expires: bool = False,
        acks: bool = False,
        on_event: Callable[[Event], object] | None = None,
    ) -> Subscription:
        self._check_stopped()
        ref = SessionHold() if self.entered is None else None
        session = self.entered or self._session(ref or SessionHold(), steals=not expires)
        session.expect_signs_within(patience.idle_heartbeat)
        now = self.environment.clock.steady()
        request = PullRequest(wants, now + patience.expires if expires else None, acks)
        return Subscription(
            session, request, self.environment.clock, ref, patience.expires if expires else None, on_event
        )


def _no_wait() -> None:
    """There was no session to wait for."""
