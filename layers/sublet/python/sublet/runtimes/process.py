"""A long-lived process: runs the lease manager's ticks and the lease workers' windows in threads until it is stopped.

It uses the same leases, checkpoints, handlers and lease table as the Lambda functions, and counts as one more worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.manager.fleet_kind import REPORTED_EVERY
from sublet.decisions.manager.joins_and_drains import NOTHING_ANNOUNCED, AnnouncementKind, heard_within, tick_interval
from sublet.decisions.manager.packing import WorkerItem, pack
from sublet.decisions.patience import NOTHING_YET, WORKED, RefusalStreak
from sublet.decisions.session.process_health import ProcessReport, ProcessState, process_report
from sublet.decisions.session.window import AfterWindow
from sublet.engine.exception_fields import exception_fields
from sublet.engine.manager.busy_shards import BusyShardLog
from sublet.engine.manager.earlier_run import claims_of_earlier_run
from sublet.engine.manager.other_kind import OtherKindLog
from sublet.engine.manager.several_streams import StreamWatch
from sublet.engine.manager.tick import LeaseManager, log_start
from sublet.engine.manager.worker_reports import announce, stop_reporting
from sublet.engine.manager.worst_shards import WorstShardMetrics
from sublet.engine.process_health import LeftBehind
from sublet.engine.worker.worker import LeaseWorker
from sublet.errors import CallFailed, ProcessSpent, TransientError
from sublet.handler import Handler
from sublet.metric_names import Metric
from sublet.ports import Ports, Signal
from sublet.runtimes.health_server import serving_health
from sublet.runtimes.prometheus_page import has_library
from sublet.runtimes.scraped_metrics import SCRAPED, ConsumerValues, ScrapedMetrics
from sublet.settings import Settings

LOOKED_AFTER = timedelta(minutes=1)
"""How long to wait for a window before waiting again."""


@dataclass(slots=True)
class ConsumerProcess:
    """Runs until `stop` is set, then checkpoints and releases every lease, so that other workers continue at once.

    It first resumes the leases that an earlier run under the same worker id left behind. Then it ticks every two
    thirds of failover_time, so an owner's death is noticed within failover_time and one tick. It ticks at once when a
    window leaves work behind, and each second while another process joins or leaves (`decisions.manager.announcing`).

    leaving      set this to stop gently: the process continues until the others tick each second, then releases its
                 leases
    takes_share  if False, the process takes only free leases until `take_share` is called
    """

    ports: Ports
    handler: Handler
    settings: Settings
    stop: Signal
    leaving: Signal | None = None
    takes_share: bool = True
    _prompt: Signal = field(init=False)
    """Setting this starts the next tick at once. Each wait creates a new signal."""
    _worker: LeaseWorker = field(init=False)
    _windows: dict[str, Signal] = field(default_factory=dict)
    """Signals by item id, each set when the item's windows are over. Needs no lock: `dispatch` adds an item before its
    thread begins, and only that thread removes it.
    """
    _is_alone: bool = True
    """True if this process was the only worker at the last tick."""
    _tried_at: datetime = field(init=False)
    _looked_at: datetime | None = None
    _streams: StreamWatch | None = None
    """None unless the application reads several streams."""
    _worst: WorstShardMetrics = field(default_factory=WorstShardMetrics)
    _busy: BusyShardLog = field(default_factory=BusyShardLog)
    _other_kind: OtherKindLog = field(default_factory=OtherKindLog)
    """What ticks have said of shards and leases, so that they do not say it each time."""
    _refusals: RefusalStreak = NOTHING_YET
    """Of ticks."""
    _scraped: ConsumerValues | None = None
    """What Prometheus is shown; None if nobody asks."""
    _is_reporting: bool = False
    """True if at the last tick a KCL 3.x leader assigned the leases and wanted reports."""

    def __post_init__(self) -> None:
        if self.settings.health is not None and has_library():
            SCRAPED.turn_on()
        if SCRAPED.is_on:
            clock, lasts = self.ports.clock, 3 * tick_interval(self.settings)
            self._scraped = SCRAPED.values_of(self.settings, clock, lasts)
            self.ports = replace(self.ports, metrics=ScrapedMetrics(self.ports.metrics, self._scraped, clock))
        self._worker = LeaseWorker(self.ports, self.handler, self.settings, asks=True)
        self._streams = None if self.ports.streams is None else StreamWatch(self.ports, self.settings)
        self._prompt = self.ports.tasks.signal()
        self._tried_at = self.ports.clock.steady()

    def run(self) -> None:
        """Run until stopped. Raises a tick's error if waiting does not help (`decisions.patience`), and ProcessSpent if
        only a new process could continue, in both cases after every lease is released.
        """
        health = self._worker.health
        health.ends_at_once.on_set(self.stop.set)
        shown = nullcontext() if self._scraped is None else self._scraped.holding(lambda: len(self._worker.states()))
        try:
            with shown, serving_health(self.settings.health, self.report, self.ports.tasks):
                self._run()
        except Exception as fault:
            health.note(fault)
            if health.ends_now is None:
                raise
        if (why := health.ends_now) is not None:
            raise ProcessSpent(f"this process cannot continue: {why}; every lease is released, start it again")

    def take_share(self) -> None:
        """Steal from now on, until this process has its share of the leases. Any thread may call it."""
        self.takes_share = True
        self._tick_at_once()

    def poll_quiet_shards(self) -> None:
        """Poll quiet shards now, because a caller waits for records and will not wait long. Any thread may call it."""
        self._worker.poll_quiet_shards()

    def left(self) -> tuple[LeftBehind, ...]:
        """The leases that this process would leave behind if it ended now."""
        return self._worker.left()

    def report(self) -> ProcessReport:
        """The health of this process now."""
        state = ProcessState(
            self._tried_at,
            self._looked_at,
            self._is_to_end,
            self._worker.health.ends_now,
            self._worker.states(),
            self._worker.health.hung_calls(),
        )
        return process_report(state, self.ports.clock.steady(), self.settings)

    @property
    def has_hung_calls(self) -> bool:
        """True if a handler call is still running although it has timed out. Such a call may keep Python from
        exiting.
        """
        return self._worker.health.hung > 0

    def _run(self) -> None:
        log_start(self.ports.log, self._settings_now, tick_interval(self.settings))
        has_joined = False
        told = [self.stop] if self.leaving is None else [self.stop, self.leaving]
        for signal in told:
            signal.on_set(self._tick_at_once)
        try:
            self._resume()
            while not self._is_to_end:
                settings = self._settings_now
                if settings.steals and not has_joined:
                    has_joined = True
                    announce(AnnouncementKind.JOINS, self.ports, settings)
                manager = LeaseManager(
                    self.ports,
                    self,
                    settings,
                    asks=True,
                    watch=self._worker.watch,
                    streams=self._streams,
                    worst=self._worst,
                    busy=self._busy,
                    other_kind=self._other_kind,
                )
                self._prompt.wait(self._tick(manager))
                # Replaced before the next tick, which does whatever the old one was set for.
                self._prompt = self.ports.tasks.signal()
            if self._is_reporting:
                stop_reporting(self.settings.own_worker_ids, self.ports)
            if not self.stop.is_set():
                self._leave()
        finally:
            for signal in told:
                signal.set()
            for over in list(self._windows.values()):
                while not over.wait(LOOKED_AFTER):
                    pass
            self._worker.close()
            self.ports.metrics.flush(is_last=True)

    def _resume(self) -> None:
        try:
            choices = claims_of_earlier_run(self.ports, self.settings, self.stop, self._worker.watch)
        except TransientError as problem:
            self.ports.log.warning("could not check for leases to resume", problem=str(problem))
            return
        self.dispatch(pack(choices, self.settings, self.ports.chance, self.ports.clock.now()))

    @property
    def _is_to_end(self) -> bool:
        return self.stop.is_set() or (self.leaving is not None and self.leaving.is_set())

    @property
    def _settings_now(self) -> Settings:
        return self.settings if self.takes_share else replace(self.settings, max_leases_to_steal_at_one_time=0)

    def _tick(self, manager: LeaseManager) -> timedelta:
        """Returns how long to wait for the next tick, unless it is prompted."""
        try:
            report = manager.tick()
        except CallFailed as problem:
            return self._after(problem)
        finally:
            self._tried_at = self.ports.clock.steady()
        self._looked_at, self._refusals = self._tried_at, WORKED
        others, self._is_reporting = report.others, report.is_reporting
        self._is_alone = others.is_alone
        if others.requested:
            self.ports.log.info("releasing leases that another worker asked for", lease_keys=sorted(others.requested))
            self._worker.release(others.requested)
        if report.left:
            self.ports.log.info("releasing leases of streams that are no longer read", lease_keys=sorted(report.left))
            self._worker.release(report.left)
        after = others.next_look.after
        # Windows report for this process, but without a lease there are none.
        return min(after, REPORTED_EVERY) if self._is_reporting else after

    def _after(self, problem: CallFailed) -> timedelta:
        """Returns how long to wait after a tick that failed; raises the problem if it is final, or has lasted for too
        long.
        """
        ports, settings, now = self.ports, self.settings, self.ports.clock.steady()
        self._worker.health.note(problem)
        self._refusals = self._refusals.after(problem, now)
        if self._refusals.is_over(problem, now, settings.refusal_patience):
            raise problem
        if isinstance(problem, TransientError):
            ports.log.warning("tick failed; will retry", problem=str(problem))
            return tick_interval(settings)
        pause = self._refusals.pause(tick_interval(settings))
        ports.log.warning(
            "tick refused; will retry",
            error=type(problem).__name__,
            problem=str(problem),
            refused_since=str(self._refusals.since),
            again_after=pause.total_seconds(),
        )
        ports.metrics.put(Metric.TICKS_REFUSED, 1)
        ports.metrics.flush()
        return pause

    def _leave(self) -> None:
        """Announce that this process leaves, and keep the leases until the other processes have read that."""
        try:
            announced = self.ports.sightings.load().announced
        except CallFailed:
            announced = NOTHING_ANNOUNCED
        wait = heard_within(announced, self.ports.clock.now(), self._is_alone, self.settings)
        self.ports.log.info("draining", releases_after=wait.total_seconds())
        if not self._is_alone:
            announce(AnnouncementKind.LEAVES, self.ports, self.settings, announced)
        self.stop.wait(wait)

    def _tick_at_once(self) -> None:
        self._prompt.set()

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        """Run each item's windows in a thread of its own: this process is its own dispatcher."""
        chosen = {claim.lease_key for item in items for claim in item.claims}
        self._worker.health.has_chosen(chosen, is_at_work=bool(self._windows))
        for item in items:
            over = self._windows[item.item_id] = self.ports.tasks.signal()
            try:
                self.ports.tasks.spawn(partial(self._consume, item, over))
            except RuntimeError:  # the machine is out of threads
                del self._windows[item.item_id]
                raise

    def _consume(self, item: WorkerItem, over: Signal) -> None:
        """Run the item's windows. An unexpected failure is logged: its window has released the leases, and the next
        tick chooses them again.
        """
        try:
            self._run_windows(item)
        except Exception as fault:  # noqa: BLE001 - a process outlives one window's fault
            self.ports.log.error(
                "window failed", item_id=item.item_id, **exception_fields(fault, self.settings.log_exceptions)
            )
        finally:
            self._windows.pop(item.item_id, None)
            over.set()

    def _run_windows(self, item: WorkerItem) -> None:
        number = 0
        while True:
            number += 1
            report = self._worker.run_window(
                item, f"window-{number}", self.ports.clock.steady() + self.settings.window, self.stop
            )
            if report.next is not AfterWindow.AGAIN:
                break
            item = report.item
        if report.next is AfterWindow.PROMPT:
            self._tick_at_once()
