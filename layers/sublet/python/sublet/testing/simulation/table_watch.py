"""The invariants that every write to the lease table must keep, whichever process makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.ports import Applied, Refused
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import Checkpoint, Sentinel
from sublet.protocol.conditions import Row
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.testing.simulation.ledger import NEVER
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Process
from sublet.testing.simulation.write_rules import WriteRules

if TYPE_CHECKING:
    from sublet.testing.simulation.world import World

_OWNERS_WRITES = frozenset(
    (
        WriteKind.HEARTBEAT,
        WriteKind.PIN,
        WriteKind.CHECKPOINT,
        WriteKind.PREPARE,
        WriteKind.SET_CHILDREN,
        WriteKind.END,
        WriteKind.RELEASE,
        WriteKind.HAND_OVER,
    )
)
_KNOWN = frozenset(
    (
        attributes.LEASE_KEY,
        attributes.LEASE_OWNER,
        attributes.LEASE_COUNTER,
        attributes.OWNER_SWITCHES,
        attributes.CHECKPOINT,
        attributes.SUB_SEQUENCE_NUMBER,
        attributes.PARENTS,
        attributes.CHILDREN,
        attributes.STARTING_HASH_KEY,
        attributes.ENDING_HASH_KEY,
        *attributes.PENDING,
        attributes.THROUGHPUT,
        attributes.CHECKPOINT_OWNER,
        attributes.START_AT,
        attributes.CAUGHT_UP_AT,
        attributes.QUIET,
        attributes.LAG,
        attributes.SEEN,
        attributes.HOLDER,
        attributes.HOLDER_COUNTER,
        attributes.UNANSWERED,
        *attributes.TROUBLES,
    )
)


Observer = Callable[[Process, LeaseWrite, Row | None], None]
"""Called with each applied write and with the row before it; the tenancy is still the old one."""


@dataclass(slots=True)
class Tenancy:
    """Which process may write to a lease as its owner, as the table has granted it, and when it last did."""

    owner: Process | None = None
    owner_id: str | None = None
    last_write: int = 0
    is_recreated: bool = False
    """True if an operator once deleted the row: a claim on the old row may then meet the new one at the same
    counter.
    """
    is_second: bool = False
    """True if an earlier row was cleaned up: if an operator deletes a parent's row, its children begin again too."""
    is_spoilt: bool = False
    """Since the owner's last write an operator has made the row unreadable, or Java has written under the owner's
    name.
    """
    moves: list[tuple[int, str]] = field(default_factory=list)
    """When another worker id took the lease. Between two executions any worker may take a lease of ours: a Java worker
    short of its fair share may well do so, and keeps it.
    """


@dataclass(slots=True)
class TableWatch:
    """Makes every write, and compares the row before it with the row after it."""

    world: World
    tenancies: dict[str, Tenancy] = field(default_factory=dict)
    ever_leased: set[str] = field(default_factory=set)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    """The checkpoints of the rows; for an unreadable row, the last one known."""
    previous_rows: dict[str, tuple[int, Row | None]] = field(default_factory=dict)
    """Each row before its last write, and the time of that write: for stale scans."""
    rules: WriteRules | None = field(default_factory=WriteRules)
    observers: list[Observer] = field(default_factory=list)

    def commit(self, process: Process, write: LeaseWrite) -> Applied | Refused:
        """Applies one conditional write, at one moment, and checks every invariant that it must keep."""
        self.world.check_may_write(process, f"{write.kind} of {write.lease_key}")
        before = self.world.table.row(write.lease_key)
        result = self.world.table.apply(write)
        after = self.world.table.row(write.lease_key)
        if isinstance(result, Applied) or after != before:
            self.world.note(process.name, f"{write.kind} {write.lease_key[-4:]}: {_row_text(after)}")
            self.previous_rows[write.lease_key] = (self.world.scheduler.now_us, before)
            self._written(process, write, before, after)
        else:
            self.world.note(process.name, f"{write.kind} {write.lease_key[-4:]} refused by {_row_text(before)}")
        return result

    def _written(self, process: Process, write: LeaseWrite, before: Row | None, after: Row | None) -> None:
        key = write.lease_key
        for observer in self.observers:
            observer(process, write, before)
        rules = None if process.is_java or process.is_older else self.rules
        if rules is not None and (problem := rules.broken(write, before, after)):
            self.world.fail(f"{write.kind} of {key} breaks its rule: {problem}")
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
            self.world.acquirers.add(process)
            self._acquired(process, key, before or {}, after, tenancy)
        elif write.kind in _OWNERS_WRITES and not _is_unfenced(process, write):
            self._owner_wrote(process, write, after, tenancy)

    def _owner_wrote(self, process: Process, write: LeaseWrite, after: Row, tenancy: Tenancy) -> None:
        key = write.lease_key
        is_anothers = tenancy.owner is not process
        tenancy.is_spoilt = is_anothers or not isinstance(decode_row(after), Lease)
        if is_anothers and not _is_javas_own_slip(process, tenancy, after):
            owner = tenancy.owner.name if tenancy.owner else "none"
            self.world.fail(f"{write.kind} of {key} succeeded, but its owner is {owner}: two owners at once")
        tenancy.last_write = self.world.scheduler.now_us
        if write.kind in (WriteKind.RELEASE, WriteKind.END):
            tenancy.owner = None
        if write.kind is WriteKind.HAND_OVER:
            self._granted(key, after, tenancy, None, was_free=False)

    def _granted(self, key: str, after: Row, tenancy: Tenancy, process: Process | None, was_free: bool) -> None:
        """Notes a row's new owner. A worker that a KCL 3.x leader has only named does not know of it yet."""
        owner_id = after[attributes.LEASE_OWNER]["S"]
        if process is None or process.is_java:
            process = self.world.java.get(owner_id)
        tenancy.owner, tenancy.last_write = process, self.world.scheduler.now_us
        self.moved(key, owner_id, was_free)
        lease = decode_row(after)
        if isinstance(lease, Lease) and process is not None:
            self.world.ledger.begin_session(process, key, lease.checkpoint)

    def spoilt(self, key: str) -> None:
        """Notes that an operator has made the row unreadable."""
        self.tenancies.setdefault(key, Tenancy()).is_spoilt = True
        self.world.write_audit.moved(key)

    def _deleted(self, key: str, before: Row | None) -> None:
        lease = decode_row(before or {})
        if isinstance(lease, Lease) and lease.is_ended:
            for child in self.world.ledger.shards[key].children:
                if child not in self.ever_leased:
                    self.world.fail(f"lease {key} deleted before its child {child} had a lease")
        self.tenancies.pop(key, None)

    def forget(self, key: str) -> None:
        """Notes that an operator has deleted the row: its content is gone, and the shard begins again."""
        self.tenancies[key] = Tenancy(is_recreated=True)
        self.checkpoints.pop(key, None)
        self.world.ledger.orphan_sessions(key)
        self.world.write_audit.moved(key)

    def _created(self, key: str, after: Row) -> None:
        self.checkpoints.pop(key, None)
        truth = self.world.ledger.shards.get(key)
        if truth is None:
            self.world.fail(f"lease {key} created for a shard that does not exist")
            return
        if attributes.CHECKPOINT not in after or attributes.LEASE_COUNTER not in after:
            self.world.fail(f"half a row: {sorted(after)}")
        self.tenancies[key].is_second = key in self.ever_leased
        self.ever_leased.add(key)
        sentinel = after[attributes.CHECKPOINT]["S"]
        # Two first syncs at once, with a reshard between their listings, may both create at LATEST: the child's first
        # owner sees the parent's row and reads the child from its beginning. A worker that wakes up long after its
        # shard was done may create a child again, and a sync that child's merge partner.
        is_done = truth.is_closed and truth.is_all_done
        if sentinel == Sentinel.LATEST and not is_done and self._follows_on_unseen(key):
            self.world.fail(f"lease {key} created at LATEST, though an ancestor has begun: its first records are lost")
        if sentinel == Sentinel.TRIM_HORIZON and truth.required_from == NEVER:
            self.world.require(key, -NEVER)

    def _follows_on_unseen(self, key: str) -> bool:
        """Whether an ancestor of the shard has begun, and no parent has a row that would show it."""
        shards = self.world.ledger.shards
        ancestors = set(shards[key].parents)
        if any(self.world.table.row(parent) is not None for parent in ancestors):
            return False
        left = list(ancestors)
        while left:
            further = set(shards[left.pop()].parents) - ancestors
            ancestors |= further
            left += further
        return any(shards[each].required_from != NEVER for each in ancestors & self.ever_leased)

    def _check_row(self, process: Process, write: LeaseWrite, before: Row, after: Row) -> None:
        counters = [row.get(attributes.LEASE_COUNTER, {}).get("N") for row in (before, after)]
        if None not in counters:
            risen = int(counters[1] or 0) - int(counters[0] or 0)
            unmoved = (WriteKind.LATE_CHECKPOINT, WriteKind.SET_CHILDREN, WriteKind.HAND_OVER)
            least = 0 if write.kind is WriteKind.LATE_CHECKPOINT or (process.is_java and write.kind in unmoved) else 1
            if risen < least:
                self.world.fail(f"{write.kind} of {write.lease_key}: counter {counters[0]} became {counters[1]}")
        for name, value in before.items():
            if name not in _KNOWN and after.get(name) != value:
                self.world.fail(f"{write.kind} of {write.lease_key} lost the unknown attribute {name}")

    def _check_checkpoint(self, process: Process, write: LeaseWrite, key: str, after: Row) -> None:
        lease = decode_row(after)
        if not isinstance(lease, Lease):
            return
        known, now = self.checkpoints.get(key), lease.checkpoint
        if known == now:
            return
        self.checkpoints[key] = now
        truth = self.world.ledger.shards[key]
        # Java's updateLease writes its remembered position, so it overwrites a late checkpoint of ours, which leaves
        # its fence alone.
        may_go_back = write.kind is WriteKind.CREATE or (process.is_java and write.kind is WriteKind.CHECKPOINT)
        if known is not None and now < known and not may_go_back:
            self.world.fail(f"{write.kind} of {key} moved the checkpoint back from {known} to {now}")
        if write.kind is WriteKind.LATE_CHECKPOINT:
            self.world.ledger.checkpointed_late(process, key, now)
        if truth.covered_by(now) > truth.done_before():
            unhandled = truth.places[truth.done_before()]
            self.world.fail(f"{write.kind} of {key} to {now} covers record {unhandled}, which no handler has finished")
        if now.is_shard_end:
            if not truth.is_closed:
                self.world.fail(f"{key} ended while its shard is open")
            for child in truth.children:
                if child not in self.ever_leased:
                    self.world.fail(f"{key} ended before its child {child} had a lease")

    def _acquired(self, process: Process, key: str, before: Row, after: Row, tenancy: Tenancy) -> None:
        now, owner = self.world.scheduler.now_us, before.get(attributes.LEASE_OWNER, {}).get("S")
        if owner is not None and not self._may_take(process, key, before):
            idle = now - tenancy.last_write
            allowed = (self.world.settings.failover_time - self.world.clocks_differ_by) // MICROSECOND
            if idle < allowed and not tenancy.is_recreated:
                self.world.fail(f"{key} acquired from {owner}, which wrote to it {idle / SECOND:.1f} s ago")
        self._granted(key, after, tenancy, process, was_free=owner is None)

    def _may_take(self, process: Process, key: str, before: Row) -> bool:
        """Whether the process may take the lease from a live owner: by stealing, or as another attempt at the very item
        that holds it. Java has rules of its own.
        """
        item = self.world.items.get(process)
        if item is None:
            return True
        stolen = any(claim.lease_key == key and claim.why is ClaimReason.STEAL for claim in item.claims)
        holder = before.get(attributes.HOLDER, {}).get("S", "")
        owner = before.get(attributes.LEASE_OWNER, {}).get("S")
        return stolen or (holder.startswith(f"{item.item_id}/") and owner == item.worker_id)

    def moved(self, key: str, worker_id: str, was_free: bool) -> None:
        tenancy = self.tenancies.setdefault(key, Tenancy())
        if not was_free and tenancy.owner_id not in (None, worker_id):
            tenancy.moves.append((self.world.scheduler.now_us, f"{key} from {tenancy.owner_id} to {worker_id}"))
        tenancy.owner_id = worker_id


def _is_javas_own_slip(process: Process, tenancy: Tenancy, after: Row) -> bool:
    """True if Java mistakes another's write for its own. It recognizes its writes only by worker id and counter, which
    fails on a row that was created again, and while a lease that it lost one count ago is handed back to it.
    """
    is_anew = tenancy.is_recreated or tenancy.is_second
    return process.is_java and (is_anew or attributes.CHECKPOINT_OWNER in after)


def _is_unfenced(process: Process, write: LeaseWrite) -> bool:
    """True for Java's unfenced writes: of the children's names, and of a leader's request to hand a lease over."""
    return process.is_java and write.kind in (WriteKind.SET_CHILDREN, WriteKind.HAND_OVER)


def _row_text(row: Row | None) -> str:
    lease = None if row is None else decode_row(row)
    if not isinstance(lease, Lease):
        return "no row" if row is None else "a bad row"
    handoff = f" (draining: {lease.checkpoint_owner})" if lease.checkpoint_owner else ""
    checkpoint = str(lease.checkpoint)
    place = checkpoint if len(checkpoint) < 20 else f"..{checkpoint[-24:]}"
    return (
        f"owner {lease.lease_owner}{handoff}, counter {lease.lease_counter}, holder {lease.holder}, checkpoint {place}"
    )
