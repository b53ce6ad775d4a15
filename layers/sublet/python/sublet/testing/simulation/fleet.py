"""Our own deployment: the schedule, lease managers, the state machine's loop, and lease workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from sublet.decisions.manager.describe_again import DescriptionDoubt, is_known
from sublet.decisions.manager.liveness import CLOCK_RIGHT_WITHIN
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.manager.stream_adoption import suspects
from sublet.decisions.session.window import CRASHES_MAX, RUNS_MAX, AfterWindow, WindowReport
from sublet.engine.manager.tick import LeaseManager
from sublet.engine.worker.worker import LeaseWorker
from sublet.errors import StreamNotAdopted, SubletError
from sublet.handler import Handler
from sublet.ports import FailureDestination, LeaseTable, Ports, Pushes, SketchStore, Stream
from sublet.protocol.lease import Lease
from sublet.reading.polling import PolledStream
from sublet.settings import Settings
from sublet.testing.memory import MemorySightingStore, MemoryStream
from sublet.testing.simulation.control import SimControlStore
from sublet.testing.simulation.handlers import SimHandler
from sublet.testing.simulation.older_versions import OlderTable, Version
from sublet.testing.simulation.ports import (
    STALE_FOR,
    OddError,
    SimDestination,
    SimDispatcher,
    SimLeaseTable,
    SimLog,
    SimMetrics,
    SimStream,
)
from sublet.testing.simulation.scheduler import (
    MICROSECOND,
    SECOND,
    Crashed,
    Process,
    SimSignal,
    SimTask,
    SimTasks,
    SkewedClock,
)
from sublet.testing.simulation.sightings import SimSightingStore
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World, where

OVERRUN = timedelta(seconds=90)
"""How long a window may overrun its deadline without faults: the handler's last batch, checkpoints, releases."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts between a lease worker and the world. A test may replace each."""

    table: Callable[[LeaseTable], LeaseTable] = lambda table: table
    stream: Callable[[PolledStream, LeaseTable], Stream] = lambda stream, _: stream
    handler: Callable[[World, Process], Handler] = SimHandler
    destination: Callable[[World, Process], FailureDestination] = SimDestination
    settings: Callable[[Settings], Settings] = lambda settings: settings
    """The settings of a lease worker that starts now, instead of the world's."""
    begin: Callable[[World], None] = lambda _: None
    """Starts other actors beside the fleet."""
    at_the_end: Callable[[World], str | None] = lambda _: None
    """Returns a problem that is found once the world has drained and nothing moves, or None."""
    pushes: Callable[[World, Process], Pushes | None] = lambda *_: None
    """Makes a lease worker's Pushes port; None if the worker polls."""
    sketches: Callable[[World, Process], SketchStore | None] = lambda *_: None
    """Makes the store for a lease worker's sketches of hot shards; None if it makes no sketches. They draw from the
    world's chance.
    """
    has_rules: bool = True
    """Whether each write is checked against its rule. False if a test changes the rules, to see which other check
    notices.
    """
    sees_balance: bool = True
    """Whether some worlds wait at the end to see the leases shared out evenly, which takes as long as the rest of
    them.
    """


@dataclass(frozen=True, slots=True)
class Warm:
    """A lease manager between two ticks, with what its process remembers."""

    process: Process
    manager: LeaseManager


@dataclass(slots=True)
class SimulatedFleet:
    world: World
    tick_interval: int
    wiring: Wiring
    managers: int = 0
    invocations: int = 0
    deployments: int = 1
    warm: Warm | None = None
    """The environment of the tick that ended last, which Lambda uses again for the next one."""

    def start(self) -> None:
        self.world.at(0, "schedule", self._schedule)

    def _schedule(self) -> None:
        """Starts a tick every interval, sometimes a little late, sometimes not at all, sometimes twice at once."""
        world = self.world
        while True:
            if off := world.day_off.left(world.scheduler.now_us):
                self._switch_off(off)
            if world.strikes(Fault.MISSED_TICK):
                world.note("schedule", "misses a tick")
            else:
                self.tick()
                if world.strikes(Fault.OVERLAPPING_TICK):
                    self.tick()
            if world.strikes(Fault.DESTROYED):
                self._destroy()
            if world.sightings.load().stream is not None and world.strikes(Fault.OTHER_STREAM):
                self._tick_on_another_stream()
            world.scheduler.sleep(self.tick_interval + int(world.chance.uniform(0, 3 * SECOND)))

    def _destroy(self) -> None:
        """Destroys the stack under its workers, except the lease table, and deploys it again later."""
        world = self.world
        world.note("operator", "destroys the stack")
        world.sightings = MemorySightingStore()
        world.sighting_chunks.clear()
        world.dispatched.clear()
        self._switch_off(int(world.chance.uniform(1, 120) * SECOND))

    def _switch_off(self, microseconds: int) -> None:
        """Kills our processes and runs none for this long."""
        world = self.world
        world.note("operator", f"switches it off for {microseconds / SECOND:.0f} s")
        self.deployments += 1
        for process in world.processes:
            if process.chaotic and not process.is_java and not process.is_dead:
                world.scheduler.kill(process)
        world.scheduler.sleep(microseconds)

    def _tick_on_another_stream(self) -> None:
        """Ticks like another deployment of the same application that reads another stream, or as if the stream had been
        deleted and created again with the same name and shard ids.
        """
        world = self.world
        is_recreated = world.chance.random() < 0.5 and world.scheduler.now_us >= 2 * SECOND
        name, shards = ("memory", len(world.stream.logs)) if is_recreated else ("another", 1)
        other = MemoryStream(shards, clock=world.scheduler, name=name)
        if is_recreated and not self._would_tell(other):
            return
        manager = self._manager(lambda _: other, replace(world.settings, stream=name, stream_arn=None))
        process = world.processes[-1]
        process.may_not_write = True

        def tick() -> None:
            with suppress(SubletError, OddError):
                manager.tick()
                world.fail("a tick on another stream is not refused")

        self._watch(process, world.scheduler.spawn(process, tick))

    def _would_tell(self, recreated: MemoryStream) -> bool:
        """Whether a tick would notice. A description by another process is trusted for minutes, unless leases and
        listing disagree; and for longer while another tick renews it.
        """
        world = self.world
        leases = [row for key in world.table.rows() if isinstance(row := world.table.get(key), Lease)]
        doubt = DescriptionDoubt.SUSPECTS if suspects(leases, recreated.list_shards()) else DescriptionDoubt.NONE
        a_look_earlier = world.scheduler.now() - CLOCK_RIGHT_WITHIN - timedelta(seconds=STALE_FOR / SECOND)
        is_alone = self.warm is not None
        known = is_known(world.sightings.load().placement, a_look_earlier, doubt)
        return not known and (is_alone or doubt is not DescriptionDoubt.NONE)

    def _manager(self, stream: Callable[[Process], Stream], settings: Settings | None = None) -> LeaseManager:
        """Makes a lease manager in a new process."""
        world = self.world
        self.managers += 1
        process = world.process(f"manager-{self.managers}")
        process.may_not_write = world.is_replaced
        table = self._table(process, is_worker=False)
        ports = self._ports(process, table, stream(process))
        return LeaseManager(
            ports, SimDispatcher(world, process, self._execute), settings or world.settings, asks=world.asks
        )

    def tick(self, *, is_prompted: bool = False) -> None:
        world = self.world
        world.ticks += 1
        manager, process = self._environment()

        def tick() -> None:
            try:
                reports = manager.prompted() if is_prompted else (manager.tick(),)
                counts = [(report.created, report.deleted) for report in reports]
                world.note(process.name, f"ticked: created, deleted {counts}")
            except (SubletError, OddError) as refused:
                world.note(process.name, f"tick fails: {refused}")
                if isinstance(refused, StreamNotAdopted):
                    self._adopt()
            self.warm = Warm(process, manager)

        self._watch(process, world.scheduler.spawn(process, tick))

    def _environment(self) -> tuple[LeaseManager, Process]:
        """Returns the environment for a tick: the one that has ended last, unless it is gone. A tick beside another one
        gets a new environment.
        """
        world, warm = self.world, self.warm
        self.warm = None
        if warm is not None and not warm.process.is_dead and world.chance.random() < 0.8:
            warm.process.may_not_write = world.is_replaced
            return warm.manager, warm.process
        manager = self._manager(lambda process: SimStream(world, process))
        return manager, world.processes[-1]

    def _adopt(self) -> None:
        """Adopts the stream as an operator does whose stored stream identity was lost while a lease's shard is past
        retention: the table then looks like another stream's, until the operator confirms that it is not.
        """
        world = self.world
        past_retention = [key for key in world.table.rows() if not world.stream.has_shard(key)]
        if past_retention and world.sightings.load().stream is None:
            world.note("operator", "adopts the stream")
            world.sightings.adopt(world.stream.describe().identity, None)

    def _execute(self, item: WorkerItem) -> None:
        """Runs one item through the state machine that the construct deploys."""
        self.world.at(self.world.scheduler.now_us, f"execution of {item.item_id[:4]}", lambda: self._run_item(item))

    def _run_item(self, item: WorkerItem) -> None:
        runs, crashes, deployment = 1, 0, self.deployments
        while True:
            self.world.step(self.world.scheduler.current.process)
            if deployment != self.deployments:
                return
            if self.world.strikes(Fault.EXECUTION_ABORTED):
                self.world.note("operator", f"aborts the execution of {item.item_id[:4]}")
                return
            report = self._window(item)
            if report is None:
                runs, crashes = runs + 1, crashes + 1
                if crashes > CRASHES_MAX or runs > RUNS_MAX:
                    return
                continue
            if report.next is AfterWindow.AGAIN and report.item.windows_left > 0 and runs < RUNS_MAX:
                item, runs, crashes = report.item, runs + 1, 0
                continue
            if report.next is not AfterWindow.DONE and not self.world.strikes(Fault.LOST_PROMPT):
                self.tick(is_prompted=True)
            return

    def _window(self, item: WorkerItem) -> WindowReport | None:
        """Runs one invocation, and waits for it. Returns None if it crashed, or if its answer was lost and it may still
        run.
        """
        world, settings = self.world, self.world.settings
        self.invocations += 1
        process = world.process(f"worker-{item.item_id[:4]}/{self.invocations}")
        world.items[process] = item
        task = self._invoke(process, item)
        if world.strikes(Fault.DUPLICATED_ITEM):
            self.invocations += 1
            twin = world.process(f"worker-{item.item_id[:4]}/{self.invocations}")
            world.items[twin] = item
            world.note(process.name, f"is invoked twice, as {twin.name}")
            self._watch(twin, self._invoke(twin, item))
        over = SimSignal(world.scheduler)
        process.on_death.append(over.set)
        world.scheduler.spawn(world.scheduler.current.process, lambda: _set_when_done(task, over))
        patience = settings.window + settings.window_margin + OVERRUN
        if world.strikes(Fault.LOST_ANSWER):
            patience *= world.chance.random()
        over.wait(patience)
        if task.is_done and task.error is None:
            return task.result()
        self._overdue(process, task)
        return None

    def _overdue(self, process: Process, task: SimTask[WindowReport]) -> None:
        """Handles an invocation that takes too long, or has crashed: Lambda kills it, or it goes on unnoticed."""
        world = self.world
        if task.is_done:
            self._check(process, task)
        elif process.is_dead:
            pass
        elif world.scheduler.now_us > world.weather.calm_from + _all_of(world) * 2 and process.frozen_until == 0:
            world.fail(f"the window of {process.name} does not end")
        elif world.chance.random() < 0.5:
            world.note(process.name, "is killed by its timeout")
            world.scheduler.kill(process)
        else:
            world.note(process.name, "is given up on, and goes on")

    def _invoke(self, process: Process, item: WorkerItem) -> SimTask[WindowReport]:
        world, clock = self.world, SkewedClock(self.world.scheduler, process)
        table = self._table(process, is_worker=True)
        ports = self._ports(process, self.wiring.table(table), self.wiring.stream(SimStream(world, process), table))
        ports = replace(ports, pushes=self.wiring.pushes(world, process), sketches=self.wiring.sketches(world, process))
        settings = self.wiring.settings(world.settings)
        worker = LeaseWorker(
            ports, self.wiring.handler(world, process), settings, replaced_at_once=True, asks=world.asks
        )

        def window() -> WindowReport:
            world.note(process.name, f"starts with {[claim.lease_key[-4:] for claim in item.claims]}")
            deadline = clock.steady() + world.settings.window
            cut_off = deadline + world.settings.window_margin
            report = worker.run_window(item, process.name, deadline, cut_off=cut_off)
            outcomes = {lease.lease_key[-4:]: lease.outcome.value for lease in report.leases}
            world.note(process.name, f"ends with {report.next}: {outcomes}")
            world.write_audit.left(process, report)
            if worker.health.ending is not None:
                world.at(world.scheduler.now_us, f"end of {process.name}", partial(self._end, process))
            return report

        return world.scheduler.spawn(process, window)

    def _table(self, process: Process, *, is_worker: bool) -> LeaseTable:
        version = self.world.version_of(is_worker=is_worker)
        process.is_older = version is not Version.NOW
        table = SimLeaseTable(self.world, process)
        return OlderTable(table, version) if process.is_older else table

    def _end(self, process: Process) -> None:
        """Ends the process on purpose: its environment is not used again."""
        self.world.note(process.name, "ends its process")
        self.world.scheduler.kill(process)

    def _ports(self, process: Process, table: LeaseTable, stream: Stream) -> Ports:
        world = self.world
        return Ports(
            table,
            stream,
            SimSightingStore(world, process),
            SkewedClock(world.scheduler, process),
            SimTasks(world.scheduler, process),
            world.chance,
            SimMetrics(),
            SimLog(world, process),
            self.wiring.destination(world, process),
            control=None if world.control is None else SimControlStore(world, process, world.control),
        )

    def _watch(self, process: Process, task: SimTask[object]) -> None:
        """Reports a fault in a task whose result is not used."""
        self.world.at(self.world.scheduler.now_us, f"watch over {process.name}", lambda: self._await(process, task))

    def _await(self, process: Process, task: SimTask[object]) -> None:
        try:
            task.result()
        except (Crashed, Exception):  # noqa: BLE001 - any unexpected end is a finding
            self._check(process, task)

    def _check(self, process: Process, task: SimTask[object]) -> None:
        if not (task.error is None or isinstance(task.error, Crashed) or task.error in self.world.odd_errors):
            self.world.fail(f"{process.name} raised {task.error!r} at {where(task.error)}")


def _all_of(world: World) -> int:
    """Returns the length of a window with its margin and overrun."""
    return (world.settings.window + world.settings.window_margin + OVERRUN) // MICROSECOND


def _set_when_done(task: SimTask[WindowReport], over: SimSignal) -> None:
    with suppress(Crashed, Exception):  # the state machine checks the task itself
        task.result()
    over.set()
