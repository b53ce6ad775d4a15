"""One seed's world: the state that all its actors share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from sublet.decisions.manager.dispatching import DispatchedWorker
from sublet.decisions.manager.liveness import CLOCK_RIGHT_WITHIN, Sighting
from sublet.decisions.manager.packing import WorkerItem
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import AttributeValue
from sublet.protocol.shard import Shard
from sublet.settings import Settings, StartKind
from sublet.testing.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream
from sublet.testing.memory.stores import MemorySketchStore
from sublet.testing.simulation.control import ControlOfWorld
from sublet.testing.simulation.ledger import NEVER, Ledger, ShardTruth
from sublet.testing.simulation.older_versions import Rollouts, Version
from sublet.testing.simulation.retention import NO_DAY_OFF, DayOff
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Crashed, Process, Scheduler
from sublet.testing.simulation.shard_time import ShardTime
from sublet.testing.simulation.table_watch import TableWatch
from sublet.testing.simulation.weather import Fault, Weather
from sublet.testing.simulation.write_audit import WriteAudit

MANAGERS_AHEAD_BY = CLOCK_RIGHT_WITHIN // MICROSECOND
"""How much too early a lease manager may consider a start time to have come, at most. Records from then on are
handled.
"""
MINUTES_OFF = 10
"""How far a wall clock may be off, or jump, in minutes."""
ACROSS_A_FENCE = "handler calls at once across a fence"


def where(error: BaseException) -> str:
    """The code lines that the error passed, the outermost first."""
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append(f"{traceback.tb_frame.f_code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return " > ".join(frames)


@dataclass(frozen=True, slots=True)
class Reshard:
    """A reshard. For a while after it, ListShards may still return the shards from before."""

    at: int
    before: tuple[Shard, ...]


@dataclass(slots=True)
class World:
    seed: int
    chance: Random
    scheduler: Scheduler
    weather: Weather
    settings: Settings
    table: MemoryLeaseTable
    stream: MemoryStream
    sightings: MemorySightingStore
    shard_time: ShardTime
    max_skew: timedelta
    clocks: Random | None = None
    """Draws how far each process' wall clock is off, in worlds where that is minutes: apart, so that nothing else
    changes.
    """
    sketches: MemorySketchStore = field(default_factory=MemorySketchStore)
    sighting_chunks: dict[int, dict[str, Sighting]] = field(default_factory=dict)
    is_recorded: bool = False
    older: float = 0
    """The share of our workers with the previous version."""
    rollouts: Rollouts | None = None
    """Decides the version of new workers and lease managers, instead of `older`."""
    asks: bool = False
    """Whether steals are announced and requested first, as processes do it. Here no owner reacts, and the operator
    announces lies.
    """
    ledger: Ledger = field(default_factory=Ledger)
    history: list[tuple[int, str, str]] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    violation: str | None = None
    processes: list[Process] = field(default_factory=list)
    watch: TableWatch = field(init=False)
    write_audit: WriteAudit = field(init=False)
    java: dict[str, Process] = field(default_factory=dict)
    """The foreign workers, by worker id."""
    items: dict[Process, WorkerItem] = field(default_factory=dict)
    senders: dict[str, Process] = field(default_factory=dict)
    """The tick that sent each item."""
    acquirers: set[Process] = field(default_factory=set)
    """Every process that has acquired a lease."""
    dispatched: dict[str, DispatchedWorker] = field(default_factory=dict)
    """The last dispatch that a lease manager stored, by lease key."""
    reshards: list[Reshard] = field(default_factory=list)
    moved_by_hand: dict[str, int] = field(default_factory=dict)
    """The counter of a row when an operator last moved it, by lease key. A world may have several operators."""
    day_off: DayOff = NO_DAY_OFF
    starts_alone: bool = True
    """Whether there is no foreign fleet, which would have a start position of its own."""
    may_lose_parents: bool = False
    """Whether the careless operator also deletes rows of merges' unfinished parents whose children wait at their
    beginning.
    """
    is_replaced: bool = False
    """Whether the stream is another one of the same name: no tick on it may write."""
    bad_shard: str | None = None
    """No record of this shard is ever handled."""
    looked_at: dict[str, int] = field(default_factory=dict)
    """When a worker last opened each shard at a record: to begin reading, or to check that the record is still
    there.
    """
    gaps: set[str] = field(default_factory=set)
    """The shards with a reported data gap."""
    untold: dict[str, set[int]] = field(default_factory=dict)
    """By shard, the indexes of records past retention whose loss has not been reported yet, and must be."""
    odd_errors: list[Exception] = field(default_factory=list)
    """The odd errors so far. Each may end a window or a tick, and must be reported."""
    ticks: int = 0
    control: ControlOfWorld | None = None
    """The operator's control; None if no operator pauses anything, and no process reads whether one does."""
    under_way: dict[str, set[Process]] = field(default_factory=dict)
    """The processes whose handler is in a call, by shard."""

    def __post_init__(self) -> None:
        self.watch = TableWatch(self)
        self.write_audit = WriteAudit(self)

    def moved(self, key: str, before: Checkpoint, to: Checkpoint) -> None:
        """Called when an operator has moved a checkpoint. At TRIM_HORIZON the row no longer says which record must
        still be there, so nobody can tell that records after it are past retention.
        """
        self.watch.checkpoints[key] = to
        self.ledger.moved(key, before, to)
        self.write_audit.moved(key)
        if not to.is_sequence_number:
            self.untold.pop(key, None)

    # Reports

    def note(self, who: str, what: str) -> None:
        if self.is_recorded:
            self.history.append((self.scheduler.now_us, who, what))

    def fail(self, problem: str) -> None:
        """An invariant is broken: the world stops here."""
        who = self.scheduler.current.process.name
        self.note(who, f"VIOLATION: {problem}")
        self.violation = self.violation or f"{who}: {problem}"
        self.scheduler.is_stopped = True
        raise Crashed

    def check_may_write(self, process: Process, what: str) -> None:
        if process.may_not_write:
            self.fail(f"{what}, though the stream is another one")

    # Processes and time

    def process(self, name: str, chaotic: bool = True) -> Process:
        skew = self.max_skew * self.chance.uniform(-1, 1) if chaotic else timedelta(0)
        process = Process(name, skew + (self.minutes_off() if chaotic else timedelta(0)), chaotic)
        process.started_at = self.scheduler.now_us
        self.processes.append(process)
        return process

    def minutes_off(self) -> timedelta:
        return timedelta(minutes=0 if self.clocks is None else self.clocks.uniform(-MINUTES_OFF, MINUTES_OFF))

    @property
    def clocks_differ_by(self) -> timedelta:
        """By how much two processes may differ about the present moment, after correction by the service's clock."""
        return 2 * (self.max_skew if self.clocks is None else max(self.max_skew, CLOCK_RIGHT_WITHIN))

    def version_of(self, *, is_worker: bool) -> Version:
        """Returns the version of a process that begins now."""
        if self.rollouts is not None:
            return self.rollouts.version_of(self.scheduler.now_us, self.chance)
        return Version.V0_2 if is_worker and self.chance.random() < self.older else Version.NOW

    def strikes(self, fault: Fault) -> bool:
        if not self.weather.strikes(fault, self.scheduler.now_us):
            return False
        self.faults[fault] = self.faults.get(fault, 0) + 1
        return True

    @property
    def has_faults(self) -> bool:
        return self.scheduler.now_us < self.weather.calm_from

    def step(self, process: Process) -> None:
        """Called before and after a port call: time passes, others run, and the process may die or pause."""
        scheduler = self.scheduler
        scheduler.check_alive()
        if process.chaotic:
            if self.strikes(Fault.CRASH):
                self.note(process.name, "crashes")
                scheduler.kill(process)
            elif self.strikes(Fault.PAUSE):
                pause = int(self.chance.uniform(0.2, 3) * (self.settings.failover_time // MICROSECOND))
                process.frozen_until = scheduler.now_us + pause
                whole_machine = self.chance.random() < 0.3
                process.suspended += pause * MICROSECOND * whole_machine
                self.note(
                    process.name,
                    f"stands still for {pause / SECOND:.1f} s{', its machine too' * whole_machine}",
                )
            elif process in self.items and self.strikes(Fault.CLOCK_JUMP):
                process.skew += timedelta(minutes=self.chance.uniform(-MINUTES_OFF, MINUTES_OFF))
                process.has_jumped = True
                self.note(process.name, f"its wall clock jumps, and is off by {process.skew}")
        scheduler.sleep(self.latency())

    def latency(self) -> int:
        """Draws the latency of a call: mostly milliseconds, now and then enough for any other process to intervene."""
        draw = self.chance.random()
        return int(draw * 20_000) if draw < 0.95 else int(draw * 300_000)

    @contextmanager
    def calling(self, process: Process, shard_id: str) -> Iterator[None]:
        """Wraps a handler's call. One process never makes two at once for a shard; two processes do only while one of
        them does not know yet that the other has fenced it off.
        """
        self.write_audit.calls(process, shard_id)
        if self.control is not None:
            self.control.check_call(self, process, shard_id)
        calls = self.under_way.setdefault(shard_id, set())
        if process in calls:
            self.fail(f"two handler calls at once for {shard_id}")
        if any(not other.is_dead for other in calls):
            self.faults[ACROSS_A_FENCE] = self.faults.get(ACROSS_A_FENCE, 0) + 1
        calls.add(process)
        try:
            yield
        finally:
            calls.discard(process)

    # Shards

    def know_shards(self) -> None:
        """Records new shards and closed ones."""
        for log in self.stream.logs:
            truth = self.ledger.shards.get(log.shard_id)
            if truth is None:
                start = self.settings.start_position
                since = NEVER if start.kind is StartKind.LATEST else -NEVER
                if start.at is not None:
                    since = (start.at - self.scheduler.now()) // MICROSECOND + self.scheduler.now_us
                truth = self.ledger.shards[log.shard_id] = ShardTruth(log.shard_id, log.parents, since)
                if start.at is not None and self.starts_alone:
                    truth.wanted_from = since - MANAGERS_AHEAD_BY - self.shard_time.stamps_differ_by // MICROSECOND
            truth.is_closed, truth.children = not log.is_open, tuple(child.shard_id for child in log.children)
        for truth in tuple(self.ledger.shards.values()):
            for child in truth.children:
                self.require(child, truth.required_from)

    def opened(self, shard_id: str) -> None:
        """Called when a shard is read for the first time: from now on a LATEST lease must not lose anything."""
        if self.ledger.shards[shard_id].required_from == NEVER:
            self.require(shard_id, self.scheduler.now_us)

    def require(self, shard_id: str, since: int) -> None:
        """Requires that records that arrive from now on in the shard and its descendants are handled."""
        truth = self.ledger.shards[shard_id]
        if since < truth.required_from:
            truth.require(since)
            for child in truth.children:
                self.require(child, since)

    def put_row(self, row: Mapping[str, AttributeValue], because: str) -> None:
        """Puts a row as an operator does, unconditionally."""
        self.note("operator", because)
        self.table.put_row({**row})

    def at(self, microseconds: int, name: str, work: Callable[[], None]) -> None:
        """Schedules an action of the world itself. If it raises, the world stops, since its result is not used."""
        process = self.process(name, chaotic=False)

        def later() -> None:
            self.scheduler.sleep(max(microseconds - self.scheduler.now_us, 0))
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a dead loop would show only as work left undone
                self.fail(f"raised {error!r} at {where(error)}")

        self.scheduler.spawn(process, later)
