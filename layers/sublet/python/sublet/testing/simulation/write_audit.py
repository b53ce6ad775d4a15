"""Whether a worker reacts rightly to the answers to its writes.

Records may be repeated, and a lease may wait for its expiry, but only for a reason:

- No lease is given up or left behind needlessly.
- Finished work is written before a lease is left.
- A worker that knows that it has lost a lease stops using it.
- No write is made that another has made needless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sublet.decisions.session.window import SessionOutcome, WindowReport
from sublet.ports import Applied, Refused
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.conditions import Row
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import UserRecord
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Process

if TYPE_CHECKING:
    from sublet.testing.simulation.world import World

RELEASES = frozenset({WriteKind.RELEASE, WriteKind.END, WriteKind.HAND_OVER})
NOT_AN_OWNERS = frozenset({WriteKind.CREATE, WriteKind.DELETE, WriteKind.ACQUIRE, WriteKind.LATE_CHECKPOINT})
ONCE = frozenset({WriteKind.CHECKPOINT, WriteKind.PIN, WriteKind.END, WriteKind.RELEASE})
"""Kinds of writes whose repetition says nothing new."""
FENCES = frozenset({attributes.HOLDER_COUNTER, attributes.THROUGHPUT, attributes.AHEAD})
"""Attributes that every write sets to a new value."""

ASKED = "asked for by another"
PASSING = frozenset({"LeaseTableUnavailable", "OddError"})
"""Errors that may pass by themselves."""


HEARTBEATS_APART = 0.8
"""The minimum, as a fraction of heartbeat_interval."""


@dataclass(slots=True)
class Audited:
    """What one process did with one lease since it tried to acquire it."""

    sent_at: int = 0
    is_answered: bool = True
    is_applied: bool = False
    """Whether its latest write as an owner was applied."""
    is_new: bool = False
    """True while it has acquired the lease and written nothing yet: it counts from its first request, which may be long
    ago.
    """
    answered: dict[WriteKind, LeaseWrite] = field(default_factory=dict)
    """The latest answered write of each kind."""
    confirmed_at: int = 0
    """When the latest applied write was sent."""
    is_checkpoint_answered: bool = True
    tried: int = 0
    """How many records, from the first, it has tried to cover by a write."""
    told: int = 0
    """How many its handler has reported as finished."""
    over: str | None = None
    """Why it must not go on, as far as it knows."""
    is_moved: bool = False
    """Whether an operator moved the row: finished records may be elsewhere than the position to be written."""
    is_hung: bool = False
    """Whether a call was abandoned, so that what it finishes is ignored."""


@dataclass(slots=True)
class WriteAudit:
    world: World
    of: dict[tuple[Process, str], Audited] = field(default_factory=dict)

    # Writes

    def sent(self, process: Process, write: LeaseWrite) -> None:
        """Called before any other process can intervene."""
        if process.is_java or write.kind in (WriteKind.CREATE, WriteKind.DELETE):
            return
        now = self.world.scheduler.now_us
        if write.kind is WriteKind.ACQUIRE:
            self.of[process, write.lease_key] = Audited()
        audited = self.of.setdefault((process, write.lease_key), Audited())
        if attributes.CHECKPOINT in write.sets and write.kind is not WriteKind.END:
            audited.tried = max(audited.tried, self._covered(write.lease_key, write.sets))
        if write.kind is WriteKind.LATE_CHECKPOINT:
            return
        if problem := self._needless(process, audited, write, now):
            self.world.fail(f"{write.kind} of {write.lease_key} is needless: {problem}")
        audited.sent_at, audited.is_answered, audited.is_applied = now, False, False
        audited.is_new = write.kind is WriteKind.ACQUIRE
        audited.answered.pop(write.kind, None)
        if write.kind is WriteKind.CHECKPOINT:
            audited.is_checkpoint_answered = False

    def _needless(self, process: Process, audited: Audited, write: LeaseWrite, now: int) -> str | None:
        # An older process runs our engine too. Its table leaves out what that version did not know: early notes, a
        # pin's moment.
        if write.kind is WriteKind.HEARTBEAT and not process.is_older and not self._has_news(write):
            since = now - audited.sent_at
            least = HEARTBEATS_APART * (self.world.settings.heartbeat_interval // MICROSECOND)
            # If an operator has moved the position, the row refuses the note, which is for the old position.
            is_note = audited.is_moved and attributes.AHEAD in write.sets
            is_early = audited.is_applied and since < least and not is_note
            if is_early and not (process.has_jumped or audited.is_new):
                return f"the last write was made {since / SECOND:.1f} s before"
        is_once = write.kind in ONCE and not (process.is_older and write.kind is WriteKind.PIN)
        before = audited.answered.get(write.kind) if is_once else None
        if before is not None and _content(before) == _content(write) and self._is_current(write):
            return "the row says it, and an answer has confirmed it"
        if write.kind is WriteKind.RELEASE and audited.is_answered and audited.over == ASKED:
            return "its next owner is named already"
        return None

    def _has_news(self, write: LeaseWrite) -> bool:
        """Whether a heartbeat may be sent before its time, because it carries news: attempts, cleared crashes, and
        finished-ahead notes that differ from the row's. The crashes of a row that an operator has deleted are news to
        its owner, who does not know that the row is gone.
        """
        row = self.world.table.row(write.lease_key) or {}
        says, before = (decode_row({**row, **write.sets}), decode_row(row))
        grows = isinstance(says, Lease) and isinstance(before, Lease) and says.noted_ahead != before.noted_ahead
        clears = attributes.CRASHES in write.removes and (attributes.CRASHES in row or not row)
        is_tried = attributes.ATTEMPTS in write.sets and write.sets[attributes.ATTEMPTS] != row.get(attributes.ATTEMPTS)
        return grows or clears or is_tried

    def _is_current(self, write: LeaseWrite) -> bool:
        row = self.world.table.row(write.lease_key) or {}
        says = all(row.get(name) == value for name, value in _content(write).items())
        return says and row.keys().isdisjoint(write.removes)

    def judge(self, process: Process, write: LeaseWrite, result: Applied | Refused) -> str | None:
        """Called at the moment of the write. Returns why its owner must stop once it has the answer."""
        if process.is_java or write.kind in NOT_AN_OWNERS:
            return None
        tenancy = self.world.watch.tenancies.get(write.lease_key)
        if isinstance(result, Applied):
            self.of[process, write.lease_key].confirmed_at = self.of[process, write.lease_key].sent_at
            if write.kind in (WriteKind.RELEASE, WriteKind.HAND_OVER):
                self._check_written(process, write.lease_key)
            return "released" if write.kind in RELEASES else None
        if tenancy is None or tenancy.owner is not process:
            return "lost"
        row = result.row
        asked = isinstance(row, Lease) and row.checkpoint_owner == tenancy.owner_id
        return ASKED if asked else None

    def answered(self, process: Process, write: LeaseWrite, result: Applied | Refused, over: str | None) -> None:
        audited = self.of.get((process, write.lease_key))
        if audited is None or write.kind in NOT_AN_OWNERS - {WriteKind.ACQUIRE}:
            return
        audited.is_answered, audited.is_applied = True, isinstance(result, Applied)
        audited.answered[write.kind] = write
        audited.over = over or audited.over
        if write.kind is WriteKind.CHECKPOINT:
            audited.is_checkpoint_answered = True

    def out_of_reach(self, process: Process, key: str, error: str) -> None:
        """Called when a worker assumes its lease lost because no write gets through: it must not do so before another
        worker may have it.
        """
        audited, failover = self.of.get((process, key)), self.world.settings.failover_time // MICROSECOND
        if audited is None or process.has_jumped or error not in PASSING:
            return
        since = self.world.scheduler.now_us - audited.confirmed_at
        if since < failover:
            self.world.fail(f"lease {key} is given up {since / SECOND:.1f} s after a write, because of a failed one")

    def given_up(self, process: Process, key: str) -> None:
        """Called when a worker assumes its lease lost by a refusal. That is wrong if the row is as its own last write
        left it, or asks it to hand the lease over. No other writer can have restored it since, unless an operator
        spoilt it: then the refusal may be older than the repair.
        """
        if self._is_held(process, key):
            self.world.fail(
                f"lease {key} is given up needlessly: the row is as its owner left it, or waits for its owner"
            )

    def _is_held(self, process: Process, key: str) -> bool:
        """Whether the row still names this process as its holder."""
        lease, tenancy = (
            decode_row(self.world.table.row(key) or {}),
            self.world.watch.tenancies.get(key),
        )
        if tenancy is None or tenancy.owner is not process or tenancy.is_spoilt:
            return False
        if not isinstance(lease, Lease) or lease.is_ended:
            return False
        return (lease.holder or "").endswith(f"/{process.name}") and lease.actual_owner == tenancy.owner_id

    # The handler

    def calls(self, process: Process, key: str) -> None:
        audited = self.of.get((process, key))
        if audited is not None and audited.over is not None:
            self.world.fail(f"handler called for {key}, though its worker knows the lease is {audited.over}")

    def told(self, process: Process, key: str, record: UserRecord) -> None:
        """Called when the handler tells the engine that the record and those before it are finished."""
        if audited := self.of.get((process, key)):
            audited.told = max(audited.told, self.world.ledger.shards[key].index_of(record) + 1)

    def hangs(self, process: Process, key: str) -> None:
        if audited := self.of.get((process, key)):
            audited.is_hung = True

    # The checkpoint

    def moved(self, key: str) -> None:
        """Called when an operator has moved the checkpoint, deleted the row or made it unreadable."""
        for (_, of_key), audited in self.of.items():
            audited.is_moved = audited.is_moved or of_key == key

    def begins_anew(self, process: Process, key: str) -> None:
        """Called when a worker reports that another writer has moved the row."""
        audited, session = self.of[process, key], self.world.ledger.sessions.get((process, key))
        tenancy = self.world.watch.tenancies.get(key)
        is_by_other = session is not None and session.late_to
        if not (audited.is_moved or is_by_other or (tenancy is not None and tenancy.is_spoilt)):
            self.world.fail(f"{key} is read again, as if its checkpoint had been moved")

    def _check_written(self, process: Process, key: str) -> None:
        """Checks that all that is finished has been written, unless the last attempt has had no answer."""
        audited, checkpoint = self.of[process, key], self.world.watch.checkpoints.get(key)
        if audited.is_moved or audited.is_hung or not audited.is_checkpoint_answered or checkpoint is None:
            return
        covered = self.world.ledger.shards[key].covered_by(checkpoint)
        if audited.told > covered:
            self.world.fail(f"{key} is released at {covered}, though the records before {audited.told} are finished")

    def _covered(self, key: str, sets: Mapping[str, AttributeValue]) -> int:
        sub = int(sets.get(attributes.SUB_SEQUENCE_NUMBER, {"N": "0"})["N"])
        return self.world.ledger.shards[key].covered_by(Checkpoint(sets[attributes.CHECKPOINT]["S"], sub))

    # The end

    def left(self, process: Process, report: WindowReport) -> None:
        """Called when a window has ended with this report: no lease may name its process except kept leases and those
        with an unanswered write. Of lost leases too, finished records must have been written, or a write tried.
        """
        kept = {lease.lease_key for lease in report.leases if lease.kept is not None}
        lost = {lease.lease_key for lease in report.leases if lease.outcome is SessionOutcome.LEASE_LOST}
        for (who, key), audited in self.of.items():
            if who is not process or key in kept:
                continue
            if audited.is_answered and self._is_held(process, key):
                self.world.fail(f"{key} is left behind: its window has ended, and the row names it")
            told_of = max(audited.tried, self._stands_at(key))
            if key in lost and audited.told > told_of and not (audited.is_moved or audited.is_hung):
                self.world.fail(
                    f"{key} is lost, and there was no attempt to write that the records before {audited.told} are "
                    "finished"
                )

    def _stands_at(self, key: str) -> int:
        """Returns how far the row says that records are finished: another invocation's progress need not be written
        again.
        """
        checkpoint = self.world.watch.checkpoints.get(key)
        return self.world.ledger.shards[key].covered_by(checkpoint) if checkpoint is not None else 0


def _content(write: LeaseWrite) -> Row:
    return {name: value for name, value in write.sets.items() if name not in FENCES}
