"""One seed's world: what all its actors share, and the invariants that every write to the lease table must keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from sublet.decisions.choose_leases import Why
from sublet.decisions.packing import WorkerItem
from sublet.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream
from sublet.ports import Applied, Refused
from sublet.protocol import lease_row as columns
from sublet.protocol.checkpoint import Checkpoint, Sentinel
from sublet.protocol.conditions import Row
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.shard import Shard
from sublet.settings import Settings, StartKind

from tests.simulation.ledger import NEVER, Ledger, ShardTruth
from tests.simulation.scheduler import MICROSECOND, Crashed, Process, Scheduler
from tests.simulation.weather import Fault, Weather

SECOND = 1_000_000

_OWNERS_WRITES = frozenset(
    (
        WriteKind.HEARTBEAT, WriteKind.PIN, WriteKind.CHECKPOINT, WriteKind.SET_CHILDREN,
        WriteKind.END, WriteKind.RELEASE, WriteKind.HAND_OVER,
    )
)  # fmt: skip
_KNOWN = frozenset(
    (columns.LEASE_KEY, columns.LEASE_OWNER, columns.LEASE_COUNTER, columns.OWNER_SWITCHES, columns.CHECKPOINT)
    + (columns.SUB_SEQUENCE_NUMBER, columns.PARENTS, columns.CHILDREN, columns.STARTING_HASH_KEY, columns.ENDING_HASH_KEY)
    + (*columns.PENDING, columns.THROUGHPUT, columns.CHECKPOINT_OWNER, columns.START_AT, columns.CAUGHT_UP_AT, columns.HOLDER)
)


@dataclass(slots=True)
class Tenancy:
    """Who may write to a lease as its owner, by what the table has granted, and since when nobody has."""

    owner: Process | None = None
    owner_id: str | None = None
    last_write: int = 0
    is_recreated: bool = False
    """Its row was once deleted by hand: then a claim on the old row may meet the new one at the same counter."""
    moves: list[tuple[int, str]] = field(default_factory=list)
    """When it was taken from a worker id by another. Between two executions a lease of ours is anybody's: a Java worker
    short of its fair share may well take it then, and keeps it."""


@dataclass(frozen=True, slots=True)
class Reshard:
    """The latest one: until a little later, ListShards may still show how it was before."""

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
    max_skew: timedelta
    is_recorded: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    history: list[tuple[int, str, str]] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    violation: str | None = None
    processes: list[Process] = field(default_factory=list)
    tenancies: dict[str, Tenancy] = field(default_factory=dict)
    ever_leased: set[str] = field(default_factory=set)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    previous_rows: dict[str, tuple[int, Row | None]] = field(default_factory=dict)
    """What a row was before its last write, and when that was: for stale scans."""
    java: dict[str, Process] = field(default_factory=dict)
    """Foreign workers by worker id."""
    items: dict[Process, WorkerItem] = field(default_factory=dict)
    recent_reshard: Reshard | None = None
    ticks: int = 0

    # Telling

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

    # Processes and time

    def process(self, name: str, chaotic: bool = True) -> Process:
        skew = self.max_skew * self.chance.uniform(-1, 1) if chaotic else timedelta(0)
        process = Process(name, skew, chaotic)
        self.processes.append(process)
        return process

    def strikes(self, fault: Fault) -> bool:
        if not self.weather.strikes(fault, self.scheduler.now_us):
            return False
        self.faults[fault] = self.faults.get(fault, 0) + 1
        return True

    def step(self, process: Process) -> None:
        """The moment before or after a port call: time passes, others run, and the process may die or stand still."""
        scheduler = self.scheduler
        scheduler.check_alive()
        if process.chaotic:
            if self.strikes(Fault.CRASH):
                self.note(process.name, "crashes")
                scheduler.kill(process)
            elif self.strikes(Fault.PAUSE):
                pause = int(self.chance.uniform(0.2, 3) * (self.settings.failover_time // MICROSECOND))
                process.frozen_until = scheduler.now_us + pause
                self.note(process.name, f"stands still for {pause / SECOND:.1f} s")
        scheduler.sleep(self.latency())

    def latency(self) -> int:
        """Mostly milliseconds; now and then long enough for anybody else to come in between."""
        draw = self.chance.random()
        return int(draw * 20_000) if draw < 0.95 else int(draw * 300_000)

    # Shards

    def know_shards(self) -> None:
        """Take note of shards that are new, and of those that have closed."""
        for log in self.stream._logs.values():
            truth = self.ledger.shards.get(log.shard_id)
            if truth is None:
                start = self.settings.start_position
                since = NEVER if start.kind is StartKind.LATEST else -NEVER
                if start.at is not None:
                    since = (start.at - self.scheduler.now()) // MICROSECOND + self.scheduler.now_us
                truth = self.ledger.shards[log.shard_id] = ShardTruth(log.shard_id, log.parents, since)
            truth.is_closed, truth.children = not log.is_open, tuple(child.shard_id for child in log.children)

    def opened(self, shard_id: str) -> None:
        """Somebody reads the shard for the first time: from now on a LATEST lease must not lose anything."""
        truth = self.ledger.shards[shard_id]
        if truth.required_from == NEVER:
            truth.required_from = self.scheduler.now_us + self.max_skew // MICROSECOND

    # The lease table

    def commit(self, process: Process, write: LeaseWrite) -> Applied | Refused:
        """One conditional write, at one moment, and every invariant that it must keep."""
        before = self.table._rows.get(write.lease_key)
        before = None if before is None else dict(before)
        result = self.table.apply(write)
        after = self.table._rows.get(write.lease_key)
        if isinstance(result, Applied) or after != before:
            self.note(process.name, f"{write.kind} {write.lease_key[-4:]}: {_row_text(after)}")
            self.previous_rows[write.lease_key] = (self.scheduler.now_us, before)
            self._written(process, write, before, after)
        else:
            self.note(process.name, f"{write.kind} {write.lease_key[-4:]} refused by {_row_text(before)}")
        return result

    def _written(self, process: Process, write: LeaseWrite, before: Row | None, after: Row | None) -> None:
        key = write.lease_key
        if after is None:
            self._deleted(key, before)
            return
        tenancy = self.tenancies.setdefault(key, Tenancy())
        if before is None:
            self._created(key, after)
        else:
            self._check_row(process, write, before, after)
        self._check_checkpoint(process, write, key, after)
        if write.kind is WriteKind.ACQUIRE:
            self._acquired(process, key, before or {}, after, tenancy)
        elif write.kind in _OWNERS_WRITES and not _is_unfenced(process, write):
            self._owner_wrote(process, write, after, tenancy)

    def _owner_wrote(self, process: Process, write: LeaseWrite, after: Row, tenancy: Tenancy) -> None:
        key = write.lease_key
        if tenancy.owner is not process and not (process.is_java and tenancy.is_recreated):
            owner = tenancy.owner.name if tenancy.owner else "nobody"
            self.fail(f"{write.kind} of {key} succeeded, but its owner is {owner}: two owners at once")
        tenancy.last_write = self.scheduler.now_us
        if write.kind in (WriteKind.RELEASE, WriteKind.END):
            tenancy.owner = None
        if write.kind is WriteKind.HAND_OVER:
            self._granted(key, after, tenancy, None, was_free=False)

    def _granted(
        self, key: str, after: Row, tenancy: Tenancy, process: Process | None, was_free: bool
    ) -> None:
        """The row names a new owner. One who was only named, by a KCL 3.x leader, has yet to find out."""
        owner_id = after[columns.LEASE_OWNER]["S"]
        if process is None or process.is_java:
            process = self.java.get(owner_id)
        tenancy.owner, tenancy.last_write = process, self.scheduler.now_us
        self.moved(key, owner_id, was_free)
        lease = decode_row(after)
        if isinstance(lease, Lease) and process is not None:
            self.ledger.begin_session(process, key, lease.checkpoint)

    def _deleted(self, key: str, before: Row | None) -> None:
        lease = decode_row(before or {})
        if isinstance(lease, Lease) and lease.is_ended:
            for child in self.ledger.shards[key].children:
                if child not in self.ever_leased:
                    self.fail(f"lease {key} deleted before its child {child} had a lease")
        self.tenancies.pop(key, None)

    def forget(self, key: str) -> None:
        """An operator has deleted the row: what it said is gone, and whatever comes next begins anew."""
        self.tenancies[key] = Tenancy(is_recreated=True)
        self.checkpoints.pop(key, None)
        self.ledger.orphan_sessions(key)

    def _created(self, key: str, after: Row) -> None:
        self.checkpoints.pop(key, None)
        truth = self.ledger.shards.get(key)
        if truth is None:
            self.fail(f"lease {key} created for a shard that does not exist")
            return
        if columns.CHECKPOINT not in after or columns.LEASE_COUNTER not in after:
            self.fail(f"half a row: {sorted(after)}")
        self.ever_leased.add(key)
        sentinel = after[columns.CHECKPOINT]["S"]
        if sentinel == Sentinel.LATEST and not self.ever_leased.isdisjoint(truth.parents):
            self.fail(f"lease {key} created at LATEST, though a parent has been leased: its first records are lost")
        if sentinel == Sentinel.TRIM_HORIZON and truth.required_from == NEVER:
            truth.require_all()

    def _check_row(self, process: Process, write: LeaseWrite, before: Row, after: Row) -> None:
        counters = [row.get(columns.LEASE_COUNTER, {}).get("N") for row in (before, after)]
        if None not in counters:
            risen = int(counters[1] or 0) - int(counters[0] or 0)
            unmoved = (WriteKind.LATE_CHECKPOINT, WriteKind.SET_CHILDREN, WriteKind.HAND_OVER)
            least = 0 if write.kind is WriteKind.LATE_CHECKPOINT or (process.is_java and write.kind in unmoved) else 1
            if risen < least:
                self.fail(f"{write.kind} of {write.lease_key}: counter {counters[0]} became {counters[1]}")
        for name, value in before.items():
            if name not in _KNOWN and after.get(name) != value:
                self.fail(f"{write.kind} of {write.lease_key} lost the unknown attribute {name}")

    def _check_checkpoint(self, process: Process, write: LeaseWrite, key: str, after: Row) -> None:
        lease = decode_row(after)
        if not isinstance(lease, Lease):
            return
        known, now = self.checkpoints.get(key), lease.checkpoint
        if known == now:
            return
        self.checkpoints[key] = now
        truth = self.ledger.shards[key]
        if known is not None and now < known and write.kind is not WriteKind.CREATE:
            if not (process.is_java and write.kind is WriteKind.CHECKPOINT):
                self.fail(f"{write.kind} of {key} moved the checkpoint back from {known} to {now}")
        if truth.covered_by(now) > truth.done_before():
            unhandled = truth.places[truth.done_before()]
            self.fail(f"{write.kind} of {key} to {now} covers record {unhandled}, which no handler has finished")
        if now.is_shard_end:
            if not truth.is_closed:
                self.fail(f"{key} ended while its shard is open")
            for child in truth.children:
                if child not in self.ever_leased:
                    self.fail(f"{key} ended before its child {child} had a lease")

    def _acquired(self, process: Process, key: str, before: Row, after: Row, tenancy: Tenancy) -> None:
        now, owner = self.scheduler.now_us, before.get(columns.LEASE_OWNER, {}).get("S")
        if owner is not None and not self._may_take(process, key, before):
            idle = now - tenancy.last_write
            allowed = (self.settings.failover_time - 2 * self.max_skew) // MICROSECOND
            if idle < allowed and not tenancy.is_recreated:
                self.fail(f"{key} acquired from {owner}, which wrote to it {idle / SECOND:.1f} s ago")
        self._granted(key, after, tenancy, process, was_free=owner is None)

    def _may_take(self, process: Process, key: str, before: Row) -> bool:
        """From a live owner: by stealing, or as another attempt at the very item that holds it. Java's rules are Java's."""
        item = self.items.get(process)
        if item is None:
            return True
        stolen = any(claim.lease_key == key and claim.why is Why.STEAL for claim in item.claims)
        holder = before.get(columns.HOLDER, {}).get("S", "")
        owner = before.get(columns.LEASE_OWNER, {}).get("S")
        return stolen or (holder.startswith(f"{item.item_id}/") and owner == item.worker_id)

    def moved(self, key: str, worker_id: str, was_free: bool) -> None:
        tenancy = self.tenancies.setdefault(key, Tenancy())
        if not was_free and tenancy.owner_id not in (None, worker_id):
            tenancy.moves.append((self.scheduler.now_us, f"{key} from {tenancy.owner_id} to {worker_id}"))
        tenancy.owner_id = worker_id

    def put_row(self, key: str, row: Mapping[str, AttributeValue], because: str) -> None:
        """By an operator, on no condition."""
        self.note("operator", because)
        self.table.put_row({**row})

    def at(self, microseconds: int, name: str, work: Callable[[], None]) -> None:
        """Have the world itself do something at a moment."""
        process = self.process(name, chaotic=False)

        def later() -> None:
            self.scheduler.sleep(max(microseconds - self.scheduler.now_us, 0))
            work()

        self.scheduler.spawn(process, later)


def _is_unfenced(process: Process, write: LeaseWrite) -> bool:
    """Java's writes that anybody may make: the names of the children, and a leader's wish that a lease be handed over."""
    return process.is_java and write.kind in (WriteKind.SET_CHILDREN, WriteKind.HAND_OVER)


def _row_text(row: Row | None) -> str:
    lease = None if row is None else decode_row(row)
    if not isinstance(lease, Lease):
        return "no row" if row is None else "a bad row"
    handoff = f" (draining: {lease.checkpoint_owner})" if lease.checkpoint_owner else ""
    checkpoint = str(lease.checkpoint)
    place = checkpoint if len(checkpoint) < 20 else f"..{checkpoint[-24:]}"
    return f"owner {lease.lease_owner}{handoff}, counter {lease.lease_counter}, holder {lease.holder}, checkpoint {place}"
