"""Looks at applications in the background, so that a page shows a trend and the last hour, and never waits for AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sublet.decisions.status.fleet_status import FleetStatus
from sublet.errors import SubletError
from sublet.operate.console.applications import OpenApplication, VisibleApplications
from sublet.operate.last_hour_metrics import HourRecorder
from sublet.operate.positions.seek import check_stream
from sublet.operate.rules.hot_shards import HotShard
from sublet.operate.rules.last_hour import LastHour, RecordedHour
from sublet.operate.status_watch import Watch
from sublet.ports import Clock, Log, Signal, Tasks

PACE = timedelta(seconds=10)
"""The pause between two looks at an application while its page is open."""

SLOW_PACE = timedelta(minutes=1)
"""The pause while its page is closed. The last hour stays complete."""

HEAT_EVERY = timedelta(minutes=1)
"""The pause between two looks at how hot shards are. Workers store sketches every five minutes, and a look reads eleven
of them and lists the shards.
"""

OPEN_FOR = timedelta(minutes=1)
FORGOTTEN_AFTER = timedelta(hours=2)
FIRST_LOOK_MAX = timedelta(seconds=3)
AT_ONCE = 8
"""How many looks may run at the same time."""


NOTHING_SEEN = LastHour()


@dataclass(frozen=True, slots=True)
class ShardHeat:
    """How hot each open shard is, by shard id, the hottest first. `problem`: why that is not known, or empty."""

    at: datetime
    shards: Mapping[str, HotShard] = field(default_factory=dict)
    problem: str = ""

    @property
    def hot(self) -> Sequence[HotShard]:
        return [shard for shard in self.shards.values() if shard.is_hot]


STALE_AFTER = timedelta(seconds=45)
"""Looks come each ten seconds while a page is open, and one may wait for a throttled stream."""


@dataclass(frozen=True, slots=True)
class ApplicationView:
    """What was seen of an application.

    status   what the last successful look found
    problem  why the last look failed; empty if it did not
    heat     None before the first look at the shards' load, or if the stream is not known
    """

    status: FleetStatus | None = None
    problem: str = ""
    hour: LastHour = NOTHING_SEEN
    heat: ShardHeat | None = None

    def stale_age(self, now: datetime) -> timedelta | None:
        """How old what is shown is, if that is more than a look's usual delay, or the last look failed. None: it is
        fresh, or there is nothing to show.
        """
        if self.status is None:
            return None
        age = now - self.status.at
        return age if self.problem or age > STALE_AFTER else None


@dataclass(slots=True)
class _WatchedApplication:
    """`looking` is held during a look: each adds to what the one before it found. Only a look changes `seen` and what
    follows.
    """

    opened: OpenApplication
    watch: Watch
    recorder: HourRecorder
    visited_at: datetime
    glanced_at: datetime
    first: Signal
    wake: Signal
    looking: AbstractContextManager[object]
    seen: ApplicationView = ApplicationView()
    is_checked: bool = False
    retention: timedelta | None = None


class ApplicationWatcher:
    """Looks at the applications that pages show. Thread-safe. `stop` ends it."""

    def __init__(self, applications: VisibleApplications, clock: Clock, tasks: Tasks, log: Log) -> None:
        self._applications = applications
        self._clock = clock
        self._tasks = tasks
        self._log = log
        self._stop = tasks.signal()
        self._lock = tasks.lock()
        """Guards `_watched`."""
        self._slots = tasks.slots(AT_ONCE)
        self._watched: dict[str, _WatchedApplication] = {}

    def stop(self) -> None:
        self._stop.set()
        with self._lock:
            watched = list(self._watched.values())
        for each in watched:
            each.wake.set()

    def opened(self, name: str) -> OpenApplication | None:
        """Opens an application. None if there is no such application. Raises what Applications raises."""
        watched = self._visit(name)
        return None if watched is None else watched.opened

    def seen(self, name: str) -> ApplicationView | None:
        """Returns what the last look found. The first visit waits a little for the first look."""
        watched = self._visit(name)
        if watched is None:
            return None
        watched.first.wait(FIRST_LOOK_MAX)
        return watched.seen

    def glance(self, name: str) -> ApplicationView:
        """Returns what the last look found, without waiting for one. Raises what Applications raises."""
        watched = self._watch(name)
        if watched is None:
            return ApplicationView(problem="it is gone")
        watched.glanced_at = self._clock.steady()
        return watched.seen

    def look(self, name: str) -> ApplicationView | None:
        """Looks now, and returns what was found. None if there is no such application."""
        watched = self._visit(name)
        if watched is None:
            return None
        self._look(watched)
        return watched.seen

    def is_watched(self, name: str) -> bool:
        """Whether the background looks at the application."""
        with self._lock:
            return name in self._watched

    def look_soon(self, name: str) -> None:
        with self._lock:
            watched = self._watched.get(name)
        if watched is not None:
            watched.wake.set()

    def _visit(self, name: str) -> _WatchedApplication | None:
        watched = self._watch(name)
        if watched is not None:
            watched.visited_at = self._clock.steady()
        return watched

    def _watch(self, name: str) -> _WatchedApplication | None:
        with self._lock:
            watched = self._watched.get(name)
        if watched is not None:
            return watched
        opened = self._applications.open(name)
        if opened is None:
            return None
        now = self._clock.steady()
        watched = _WatchedApplication(
            opened,
            Watch(opened.ports, opened.settings, probes=bool(opened.streams)),
            HourRecorder(RecordedHour if opened.inspection is None else opened.inspection.last_hour, self._clock),
            now - OPEN_FOR,
            now,
            self._tasks.signal(),
            self._tasks.signal(),
            self._tasks.lock(),
        )
        with self._lock:
            already = self._watched.setdefault(name, watched)
        if already is watched:
            self._tasks.spawn(lambda: self._run(watched))
        return already

    def _run(self, watched: _WatchedApplication) -> None:
        try:
            while not self._stop.is_set() and self._is_wanted(watched):
                with self._slots:
                    self._look(watched)
                watched.first.set()
                watched.wake.wait(PACE if self._is_open(watched) else SLOW_PACE)
                if watched.wake.is_set():
                    watched.wake = self._tasks.signal()
        finally:
            with self._lock:
                self._watched.pop(watched.opened.name, None)

    def _is_wanted(self, watched: _WatchedApplication) -> bool:
        return self._clock.steady() - max(watched.visited_at, watched.glanced_at) <= FORGOTTEN_AFTER

    def _look(self, watched: _WatchedApplication) -> None:
        with watched.looking:
            self._add_look(watched)

    def _add_look(self, watched: _WatchedApplication) -> None:
        before = watched.seen
        try:
            status = self._status(watched)
        except SubletError as problem:
            watched.seen = replace(before, problem=str(problem))
        except Exception as problem:  # noqa: BLE001 - the next look may succeed, and the page says what happened
            kind = type(problem).__name__
            watched.seen = replace(before, problem=f"an error of sublet: {kind}")
            self._log.error("console refresh failed", application=watched.opened.name, problem=kind)
        else:
            hour = self._hour(watched, before.hour.after(status))
            watched.seen = ApplicationView(status, "", hour, self._heat(watched, before.heat))

    def _hour(self, watched: _WatchedApplication, seen: LastHour) -> LastHour:
        """CloudWatch charges for each question, so it is asked only while the page is open in a browser."""
        return watched.recorder.added_to(seen) if self._is_open(watched) else seen

    def _heat(self, watched: _WatchedApplication, before: ShardHeat | None) -> ShardHeat | None:
        """Looks again only while the page is open, and only every HEAT_EVERY."""
        ask, now = watched.opened.heat, self._clock.now()
        is_fresh = before is not None and now - before.at < HEAT_EVERY
        if ask is None or is_fresh or not self._is_open(watched):
            return before
        try:
            return ShardHeat(now, {shard.shard_id: shard for shard in ask()})
        except SubletError as problem:
            return ShardHeat(now, problem=str(problem))

    def _is_open(self, watched: _WatchedApplication) -> bool:
        return self._clock.steady() - watched.visited_at < OPEN_FOR

    def _status(self, watched: _WatchedApplication) -> FleetStatus:
        opened = watched.opened
        if opened.stream is not None and not opened.several and not watched.is_checked:
            ports = opened.ports
            watched.retention = ports.stream.describe().retention
            check_stream(opened.name, opened.known, ports.table.scan().leases, ports.stream.list_shards(), ports)
            watched.is_checked = True
        return watched.watch.look(watched.retention)
