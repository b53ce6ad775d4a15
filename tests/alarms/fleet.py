"""A deployment on Lambda in simulated time: its rule, its lease manager, its state machine, and their metrics.

The engine is the real one, over the memory adapters; AWS' own metrics (invocations, errors) are put as AWS does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sublet.aws.otlp.exported_metrics import OtlpSeries
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.window import CRASHES_MAX, AfterWindow
from sublet.engine.worker.worker import LeaseWorker
from sublet.errors import StreamNotFound, SubletError
from sublet.handler import Batch
from sublet.metric_names import LEAN, Metric
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.otlp import Temporality
from sublet.settings import MetricsLevel, Mode, Settings
from sublet.testing.turn_taking import TurnTaking
from sublet_cdk.alarm_kinds import Source

from tests.alarms.cloudwatch import Recorded
from tests.doubles.engine_world import MINUTE, EngineWorld, ObservedTable, Result
from tests.doubles.otlp_service import Point, Request, points_of

TURNS_MAX = 100_000_000
ATTEMPTS_OF_TICK = 3
"""Lambda's for an asynchronous invocation: at once, after one minute and after two more."""


class Died(BaseException):
    """Raised in a simulated process that dies, so that none of its code runs any further."""


@dataclass(slots=True)
class TimedMetrics:
    """The Metrics port: writes to the simulated CloudWatch, by the minute, what each level of metrics has there."""

    recorded: Mapping[MetricsLevel, Recorded]
    minute: Callable[[], int]
    exported: Exported | None = None

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:  # noqa: ARG002 - no alarm is on one
        if self.exported is not None:
            self.exported.series.put(metric, value, shard_id)
        self.recorded[MetricsLevel.FULL].put(Source.APPLICATION, metric, self.minute(), value)
        if metric in LEAN:
            counted_as = LEAN[metric]
            lean = self.recorded[MetricsLevel.LEAN]
            for counted in counted_as.of([value]):
                lean.put(Source.APPLICATION, counted_as.metric, self.minute(), counted)

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        """No alarm is on one."""

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        """No alarm is on one."""

    def flush(self, *, is_last: bool = False) -> None:  # noqa: ARG002 - nothing waits
        """`put` has written at once what the log has."""
        if self.exported is not None:
            self.exported.send()


class Exported:
    """The requests with `metrics_export=otlp`, by when they were sent. One for all processes of the fleet."""

    def __init__(self, settings: Settings, now: Callable[[], datetime]) -> None:
        self._now, self.began = now, now()
        self.series = OtlpSeries(settings.application, settings.stream, Temporality.DELTA, self.began)
        self.requests: list[tuple[datetime, bytes]] = []

    def send(self) -> None:
        self.requests += [(self._now(), body) for body in self.series.taken(self._now())]

    def lose(self) -> None:
        """What a process that dies has not sent is lost; here, what the others have not sent either."""
        self.series.taken(self._now())

    def points(self) -> list[Point]:
        """As CloudWatch has them. Raises what its stand-in refuses."""
        headers = {"content-type": "application/json"}
        return [
            point
            for at, body in self.requests
            for point in points_of(Request("POST", "/v1/metrics", headers, body), at, None, "")
        ]


@dataclass(slots=True)
class Standing:
    """One shard's unhandled records, oldest first, and when it last made progress."""

    waiting: dict[bytes, int] = field(default_factory=dict)
    """Record -> minute of its arrival."""
    moved_at: int = 0

    def since(self) -> int | None:
        """Since when it has had records without progress; None: it has none."""
        return max(self.moved_at, min(self.waiting.values())) if self.waiting else None


@dataclass(slots=True)
class Lambda:
    """The deployment's faults. `can_start`: False if Lambda starts no lease workers."""

    ticks: bool = True
    can_start: bool = True
    executions_fail: bool = False
    deadly: Callable[[Batch], bool] = lambda _: False
    """True for a batch that kills its process."""


class Process:
    """One lease worker's process: its lease table and its handler. A dead one makes no more writes and no more calls;
    other processes go on."""

    def __init__(self, world: EngineWorld, is_deadly: Callable[[Batch], bool]) -> None:
        self._world, self._is_deadly = world, is_deadly
        self._is_dead = False

    def worker(self) -> LeaseWorker:
        ports = replace(self._world.ports, table=LivingTable(self._world.table, self._check))
        handler = replace(self._world.handler, script=self._handle)
        return LeaseWorker(ports, handler, self._world.settings)

    def _handle(self, batch: Batch) -> None:
        self._check()
        if self._is_deadly(batch):
            self._is_dead = True
            raise Died
        self._world.handler.script(batch)

    def _check(self) -> None:
        if self._is_dead:
            raise Died


@dataclass(frozen=True, slots=True)
class LivingTable:
    """A lease table that a process writes to while it lives."""

    real: ObservedTable
    check: Callable[[], None]

    def scan(self) -> LeaseScan:
        return self.real.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Result:
        self.check()
        return self.real.apply(write)


class Fleet:
    """Make one, break something at some minute, run it, and look at CloudWatch."""

    def __init__(self, settings: Settings, gap: timedelta, shards: int = 3, *, exports: bool = False) -> None:
        self.world = EngineWorld(settings, shards=shards, leases=False)
        self.world.tasks = TurnTaking(self.world.clock, TURNS_MAX)
        self.settings, self.gap = settings, gap
        self.recorded = {level: Recorded() for level in MetricsLevel}
        self.exported = Exported(settings, self.world.clock.now) if exports else None
        self.world.metrics = TimedMetrics(self.recorded, self.minute, self.exported)  # type: ignore[assignment]  # the port, not MemoryMetrics
        self.world.handler.script = self._handle
        self.handles: Callable[[Batch], None] = lambda _: None
        self.broken = Lambda()
        self.standing: dict[str, Standing] = {}
        self.stalled: dict[str, list[tuple[int, int]]] = {}
        """By shard: (minute, since when it has stood still) for each minute in which it does."""
        self._records = 0
        self.refuse_writes: Callable[[LeaseWrite, Callable[[], Result]], Result] = lambda _, apply: apply()
        self.world.table.disturb = self._write
        self._next_tick = self.world.clock.steady()
        self._undelivered = 0

    def minute(self) -> int:
        return int(self.world.seconds() // 60)

    def produce(self, shard_ids: Iterable[str] | None = None) -> None:
        """Puts one record into each open shard, or into these; none if the stream is gone."""
        for log in self.world.shards.logs:
            if log.is_open and (shard_ids is None or log.shard_id in shard_ids):
                self._records += 1
                data = f"{self._records}".encode()
                with suppress(StreamNotFound):
                    self.world.shards.put(f"{self._records}", data, log.hash_key_range.starting)
                self.standing.setdefault(log.shard_id, Standing()).waiting[data] = self.minute()

    def first_tick(self, after: timedelta) -> None:
        """The first tick of a new fleet: at once if the deployment prompts it. The rule's own ticks start one gap
        after its creation."""
        if after < self.gap:
            self.world.tasks.spawn(self._tick)
        self._next_tick = self.world.clock.steady() + self.gap

    def run(self, minutes: int, each_minute: Callable[[int], None] = lambda _: None) -> None:
        """`each_minute`: what producers and operators do; gets the minutes since the world began."""
        for _ in range(minutes):
            each_minute(self.minute())
            while self._next_tick <= self.world.clock.steady():
                self._next_tick += self.gap
                self.world.tasks.spawn(self._tick)
            self.world.tasks.sleep(MINUTE)
            self._look()
            self.world.handler.finished.clear()
            self.world.handler.batches.clear()
            self.world.table.writes.clear()
            self.world.stream.polls.clear()

    def skip(self, minutes: int) -> None:
        """A quiet stretch: each of its ticks puts what the last tick put. Not for windows that continue over it."""
        if self.settings.mode is Mode.CONTINUOUS:
            self.run(minutes)
            return
        gap = max(1, self.gap // MINUTE)
        for recorded in self.recorded.values():
            recorded.repeat(gap, self.minute() + minutes)
        self.world.clock.advance(minutes * MINUTE)
        self._next_tick += -(-minutes // gap) * self.gap

    def _look(self) -> None:
        """Notes which shards made progress in this minute, and which stand still. A hung call makes none."""
        for shard_id, data in self.world.handler.finished:
            standing = self.standing.get(shard_id)
            if standing is not None and standing.waiting.pop(data, None) is not None:
                standing.moved_at = self.minute()
        for shard_id, standing in self.standing.items():
            if (since := standing.since()) is not None:
                self.stalled.setdefault(shard_id, []).append((self.minute(), since))

    def _tick(self) -> None:
        if not self.broken.ticks:
            return
        for attempt in range(ATTEMPTS_OF_TICK):
            if attempt:
                self.world.tasks.sleep(attempt * MINUTE)
            if self._invoke_manager(lambda: self.world.manager().tick()):
                return
        self._undelivered += 1
        self._put(Source.DEAD_LETTERS, "ApproximateNumberOfMessagesVisible", self._undelivered)

    def _invoke_manager(self, work: Callable[[], object]) -> bool:
        try:
            work()
            failed = False
        except SubletError:
            failed = True
        self._put(Source.MANAGER, "Invocations", 1)
        self._put(Source.MANAGER, "Errors", int(failed))
        for item in self.world.dispatcher.take():
            self.world.tasks.spawn(lambda item=item: self._execute(item))  # type: ignore[misc]  # bound as it is now
        return not failed

    def _execute(self, item: WorkerItem) -> None:
        """Does what the state machine does. A crash runs the item again, at most three times in a row."""
        self._put(Source.STATE_MACHINE, "ExecutionsFailed", int(self.broken.executions_fail))
        if self.broken.executions_fail:
            return
        crashes = 0
        while crashes <= CRASHES_MAX:
            self._put(Source.WORKER, "Throttles", int(not self.broken.can_start))
            if not self.broken.can_start:
                return
            try:
                report = self.world.window(
                    item,
                    lasts=self.settings.window,
                    worker=Process(self.world, self._is_deadly).worker(),
                    margin=self.settings.window_margin,
                )
            except Died:
                if self.exported is not None:
                    self.exported.lose()
                crashes += 1
                self._put(Source.WORKER, "Errors", 1)
                continue
            self._put(Source.WORKER, "Errors", 0)
            crashes, item = 0, report.item
            if report.next is AfterWindow.PROMPT:
                self._invoke_manager(lambda: self.world.manager().prompted())
            if report.next is not AfterWindow.AGAIN:
                return

    def _is_deadly(self, batch: Batch) -> bool:
        return self.broken.deadly(batch)

    def _handle(self, batch: Batch) -> None:
        self.handles(batch)

    def _write(self, write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        return self.refuse_writes(write, apply)

    def _put(self, source: Source, metric: str, value: float) -> None:
        for recorded in self.recorded.values():
            recorded.put(source, metric, self.minute(), value)
