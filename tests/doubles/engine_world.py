"""A small world to run the engine in: memory adapters that can be made to misbehave, and a handler that records its
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from msgspec.structs import replace as replaced
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.session.read_position import ReadPosition
from sublet.decisions.session.window import LeaseReport, SessionOutcome, WindowReport
from sublet.engine.manager.tick import LeaseManager
from sublet.engine.worker.worker import LeaseWorker
from sublet.handler import Batch
from sublet.ports import Applied, Ports, Refusal, Refused, ShardReader, Signal, WorkerReports
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint, PendingCheckpoint
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, acquire
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.reading.polling import PollingReader
from sublet.settings import Mode, Settings, StartPosition
from sublet.testing.memory import (
    FakeClock,
    MemoryControlStore,
    MemoryDestination,
    MemoryDispatcher,
    MemoryLeaseTable,
    MemoryLog,
    MemoryMetrics,
    MemorySightingStore,
    MemorySnapshotStore,
    MemoryStream,
    MemoryWorkerReports,
)
from sublet.testing.turn_taking import TurnTaking

Result = Applied | Refused
SHARD = "shardId-000000000000"
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

NO_WAITING = Settings(application="orders", stream="events", linger=timedelta(0))
CONTINUOUS = replace(NO_WAITING, mode=Mode.CONTINUOUS)


@dataclass(frozen=True)
class Written:
    """One write that reached the table."""

    at: datetime
    kind: WriteKind
    lease_key: str
    applied: bool


class ObservedTable:
    """A MemoryLeaseTable that records its writes; `disturb` may answer a write instead of it."""

    def __init__(self, clock: FakeClock):
        self.real = MemoryLeaseTable()
        self.clock = clock
        self.writes: list[Written] = []
        self.looks: list[str] = []
        self.disturb: Callable[[LeaseWrite, Callable[[], Result]], Result] = lambda _, apply: apply()
        self.disturb_get: Callable[[str], None] = lambda _: None
        self.scanned_at: Callable[[], datetime | None] = lambda: None
        """By the service's own clock, if it sends its time."""

    def scan(self) -> LeaseScan:
        self.looks.append("leases")
        return replaced(self.real.scan(), at=self.scanned_at())

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        self.disturb_get(lease_key)
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Result:
        def really() -> Result:
            result = self.real.apply(write)
            self.writes.append(Written(self.clock.now(), write.kind, write.lease_key, isinstance(result, Applied)))
            return result

        return self.disturb(write, really)

    def lose_response_of(self, kind: WriteKind) -> None:
        """As with botocore: the write is applied, its response lost, and the repeated write refused by the first."""

        def twice(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
            first = apply()
            return apply() if write.kind is kind and isinstance(first, Applied) else first

        self.disturb = twice

    def lease(self, lease_key: str = SHARD) -> Lease:
        row = self.real.get(lease_key)
        assert isinstance(row, Lease), f"{lease_key}: {row}"
        return row

    def kinds(self, lease_key: str | None = None) -> list[WriteKind]:
        """The kinds of the applied writes, in order."""
        return [write.kind for write in self.writes if write.applied and lease_key in (None, write.lease_key)]


@dataclass(frozen=True)
class ServiceClock:
    """The service's own clock, which is right even if the machine's is set."""

    machine: FakeClock

    def now(self) -> datetime:
        return self.machine.steady()

    steady = now


class ObservedStream:
    """A MemoryStream that records its polls; `disturb` may answer a poll instead of it."""

    def __init__(self, real: MemoryStream, clock: FakeClock):
        self.real = real
        self.clock = clock
        self.opened: list[ReadPosition] = []
        self.polls: list[tuple[datetime, str]] = []
        self.looks: list[str] = []
        self.unlisted: set[str] = set()
        """Shards that the service knows although a lagging listing leaves them out."""
        self.disturb: Callable[[Callable[[], GetRecordsReply | Refusal]], GetRecordsReply | Refusal] = lambda poll: (
            poll()
        )
        self.disturb_open: Callable[[str], None] = lambda _: None
        self.disturb_identity: Callable[[], object] = lambda: None
        self.disturb_has_shard: Callable[[str], object] = lambda _: None
        self.disturb_listing: Callable[[StartPosition | None], object] = lambda _: None

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        self.disturb_listing(at)
        self.looks.append("shards")
        return self.real.list_shards(at)

    def describe(self) -> StreamDescription:
        self.disturb_identity()
        return self.real.describe()

    def has_shard(self, shard_id: str) -> bool:
        self.disturb_has_shard(shard_id)
        return shard_id in self.unlisted or self.real.has_shard(shard_id)

    def service_time(self) -> datetime:
        return self.real.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        self.disturb_open(shard_id)
        self.opened.append(position)
        return self.real.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        self.polls.append((self.clock.now(), iterator.split(" ", maxsplit=1)[0]))
        return self.disturb(lambda: self.real.poll(iterator, limit))


@dataclass
class RememberingHandler:
    """The Handler port. `script` runs inside each call of `handle`, and may raise, wait, or checkpoint."""

    clock: FakeClock
    script: Callable[[Batch], None] = lambda _: None
    on_releasing: Callable[[str], None] = lambda _: None
    on_lost: Callable[[str], None] = lambda _: None
    on_ended: Callable[[str], None] = lambda _: None
    on_acquired: Callable[[str, Checkpoint], None] = lambda _, __: None
    calls: list[tuple[str, str]] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    pending: list[PendingCheckpoint | None] = field(default_factory=list)
    """The pending checkpoint of each lease_acquired."""
    finished: list[tuple[str, bytes]] = field(default_factory=list)
    """(shard id, data) of the records of calls that returned, in order."""

    def handle(self, batch: Batch) -> None:
        self.calls.append(("handle", batch.shard_id))
        self.batches.append(batch)
        self.script(batch)
        self.finished += [(batch.shard_id, record.data) for record in batch.records]

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        self.calls.append(("lease_acquired", shard_id))
        self.pending.append(pending)
        self.on_acquired(shard_id, checkpoint)

    def lease_releasing(self, shard_id: str) -> None:
        self.calls.append(("lease_releasing", shard_id))
        self.on_releasing(shard_id)

    def lease_lost(self, shard_id: str) -> None:
        self.calls.append(("lease_lost", shard_id))
        self.on_lost(shard_id)

    def shard_ended(self, shard_id: str) -> None:
        self.calls.append(("shard_ended", shard_id))
        self.on_ended(shard_id)

    def data(self, shard_id: str | None = None) -> list[bytes]:
        return [data for shard, data in self.finished if shard_id in (None, shard)]


class EngineWorld:
    """One stream, one lease table, one application. Every shard has a free lease at TRIM_HORIZON by default."""

    def __init__(
        self,
        settings: Settings = NO_WAITING,
        shards: int = 1,
        throttled: bool = False,
        leases: bool = True,
        advance: timedelta | None = None,
    ):
        """`advance`: how much of a shard's time each poll covers, if the stream should not draw it."""
        self.settings = settings
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock)
        self.shards = MemoryStream(
            shards,
            clock=ServiceClock(self.clock),
            throttled=throttled,
            name="events",
            advance=None if advance is None else lambda: advance,
        )
        self.stream = ObservedStream(self.shards, self.clock)
        self.table = ObservedTable(self.clock)
        self.table.looks = self.stream.looks  # in the order of both
        self.handler = RememberingHandler(self.clock)
        self.metrics = MemoryMetrics()
        self.log = MemoryLog()
        self.sightings = MemorySightingStore()
        self.snapshots = MemorySnapshotStore()
        self.dispatcher = MemoryDispatcher()
        self.control = MemoryControlStore()
        self.ports_with: dict[str, Any] = {}
        """Other ports than these, by name."""
        self.destination = MemoryDestination()
        self.reports: WorkerReports | None = MemoryWorkerReports(self.table.real)
        self.chance = Random(0)
        self.began = self.clock.now()
        self._windows = 0
        if leases:
            for shard in self.shards.list_shards():
                self.put_lease(lease_of(shard))

    def put_lease(self, lease: Lease) -> None:
        self.table.real.put_row(encode_row(lease))

    def change_lease(self, lease_key: str = SHARD, **changes: Any) -> None:
        """Another writer changes the row, unconditionally."""
        self.put_lease(replace(self.table.lease(lease_key), **changes))

    def steal(self, lease_key: str = SHARD, worker_id: str = "thief", holder: str = "other/1") -> None:
        """Another worker acquires the lease from any owner."""
        assert isinstance(self.table.real.apply(acquire(self.table.lease(lease_key).fence, worker_id, holder)), Applied)

    def put(self, *data: str, shard: int = 0, of: int = 1) -> list[str]:
        """One record each, into the shard with this index among `of` shards of equal size. Returns their sequence
        numbers.
        """
        return [self.shards.put(f"key-{text}", text.encode(), shard * (2**128 // of)) for text in data]

    def at(self, after: timedelta, do: Callable[[], object]) -> None:
        """Do something when this much time has passed, in parallel to what runs then."""
        moment = self.clock.steady() + after

        def then() -> None:
            self.tasks.wait(lambda: False, moment)
            do()

        self.tasks.spawn(then)

    def seconds(self) -> float:
        """Since the world began."""
        return (self.clock.now() - self.began).total_seconds()

    @property
    def ports(self) -> Ports:
        ports = Ports(
            self.table,
            self.stream,
            self.sightings,
            self.clock,
            self.tasks,
            self.chance,
            self.metrics,
            self.log,
            self.destination,
            self.reports,
            self.control,
        )
        return replace(ports, **self.ports_with)

    def worker(self, *, replaced_at_once: bool = False) -> LeaseWorker:
        return LeaseWorker(self.ports, self.handler, self.settings, replaced_at_once=replaced_at_once)

    def manager(self) -> LeaseManager:
        return LeaseManager(self.ports, self.dispatcher, self.settings)

    def item(
        self,
        *lease_keys: str,
        why: ClaimReason = ClaimReason.FREE,
        item_id: str = "item",
        windows_left: int = 40,
    ) -> WorkerItem:
        """An item for these leases as they are now; by default for all."""
        keys = lease_keys or tuple(sorted(lease.lease_key for lease in self.table.real.scan().leases))
        claims = tuple(LeaseClaim(*self.table.lease(key).fence, why=why) for key in keys)
        return WorkerItem(item_id, "orders-lambda-0", claims, windows_left)

    def window(
        self,
        item: WorkerItem | None = None,
        lasts: timedelta = MINUTE,
        invocation: str | None = None,
        stop: Signal | None = None,
        worker: LeaseWorker | None = None,
        margin: timedelta | None = None,
    ) -> WindowReport:
        """In a process of its own, unless a `worker` is given. `margin`: how long after the window the runtime ends the
        process.
        """
        self._windows += 1
        name, now = invocation or f"invocation-{self._windows}", self.clock.steady()
        cut_off = None if margin is None else now + lasts + margin
        return (worker or self.worker()).run_window(item or self.item(), name, now + lasts, stop, cut_off)


def lease_of(shard: Shard, checkpoint: Checkpoint = TRIM_HORIZON) -> Lease:
    return Lease(
        shard.shard_id,
        checkpoint,
        parent_shard_ids=shard.parent_shard_ids,
        hash_key_range=shard.hash_key_range,
    )


def outcomes(report: WindowReport) -> dict[str, SessionOutcome]:
    return {lease.lease_key: lease.outcome for lease in report.leases}


def only(report: WindowReport) -> LeaseReport:
    (lease,) = report.leases
    return lease


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def raising(fault: BaseException) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        raise fault

    return call


def most_in(span: timedelta, moments: Iterable[datetime]) -> int:
    """The most times in any span of this length (its end excluded)."""
    times = sorted(moments)
    return max((sum(start <= other < start + span for other in times) for start in times), default=0)
