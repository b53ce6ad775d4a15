"""What a worker makes of the answers to its writes.

Records may come twice, and a lease may wait for its expiry: but not without a reason. So nothing is given up in vain and nothing
left behind; what is finished is written before a lease is left; who knows that a lease is no longer its own does not go on
with it; and no write is made that another has made needless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sublet.decisions.window import Outcome, WindowReport
from sublet.ports import Applied, Refused
from sublet.protocol import lease_row as columns
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.conditions import Row
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import UserRecord
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Process

if TYPE_CHECKING:
    from sublet.testing.simulation.world import World

GIVES_BACK = frozenset({WriteKind.RELEASE, WriteKind.END, WriteKind.HAND_OVER})
NOT_AN_OWNERS = frozenset({WriteKind.CREATE, WriteKind.DELETE, WriteKind.ACQUIRE, WriteKind.LATE_CHECKPOINT})
ONCE = frozenset({WriteKind.CHECKPOINT, WriteKind.PIN, WriteKind.END, WriteKind.RELEASE})
"""Of which a second one says nothing that the first did not."""
FENCES = frozenset({columns.HOLDER_COUNTER, columns.THROUGHPUT, columns.AHEAD})
"""What each write says anew."""

ASKED = "asked for by another"
PASSING = frozenset({"LeaseTableUnavailable", "OddError"})
"""Errors that may pass by themselves."""


HEARTBEATS_APART = 0.8
"""At least, as a part of heartbeat_interval."""


@dataclass(slots=True)
class Dealing:
    """One process' with one lease, since it asked for it."""

    sent_at: int = 0
    is_answered: bool = True
    is_applied: bool = False
    """Of its latest write as an owner."""
    is_new: bool = False
    """It has acquired the lease and written nothing yet: it goes by when it first asked, which may have been long before."""
    answered: dict[WriteKind, LeaseWrite] = field(default_factory=dict)
    """Of each kind the latest that was."""
    confirmed_at: int = 0
    """When the latest write was sent that was applied."""
    is_checkpoint_answered: bool = True
    tried: int = 0
    """So many of the records, from the first, are covered by what it has tried to write."""
    told: int = 0
    """So many its handler has said are finished."""
    over: str | None = None
    """Why it may not go on, as it knows."""
    is_moved: bool = False
    """By an operator's hand: what it has finished may be elsewhere than what is to be written."""
    is_hung: bool = False
    """A call was given up: what that finishes counts for nothing."""


@dataclass(slots=True)
class Dealings:
    world: World
    of: dict[tuple[Process, str], Dealing] = field(default_factory=dict)

    # Writes

    def sent(self, process: Process, write: LeaseWrite) -> None:
        """Before anybody else can have come in between."""
        if process.is_java or write.kind in (WriteKind.CREATE, WriteKind.DELETE):
            return
        now = self.world.scheduler.now_us
        if write.kind is WriteKind.ACQUIRE:
            self.of[process, write.lease_key] = Dealing()
        dealing = self.of.setdefault((process, write.lease_key), Dealing())
        if columns.CHECKPOINT in write.sets and write.kind is not WriteKind.END:
            dealing.tried = max(dealing.tried, self._covered(write.lease_key, write.sets))
        if write.kind is WriteKind.LATE_CHECKPOINT:
            return
        if problem := self._needless(process, dealing, write, now):
            self.world.fail(f"{write.kind} of {write.lease_key} is needless: {problem}")
        dealing.sent_at, dealing.is_answered, dealing.is_applied = now, False, False
        dealing.is_new = write.kind is WriteKind.ACQUIRE
        dealing.answered.pop(write.kind, None)
        if write.kind is WriteKind.CHECKPOINT:
            dealing.is_checkpoint_answered = False

    def _needless(self, process: Process, dealing: Dealing, write: LeaseWrite, now: int) -> str | None:
        # The engine of an older process is ours, and writes a note at once that its table leaves out.
        if write.kind is WriteKind.HEARTBEAT and not process.is_older and not self._has_news(write):
            since = now - dealing.sent_at
            least = HEARTBEATS_APART * (self.world.settings.heartbeat_interval // MICROSECOND)
            # Moved under it, the row refuses what is news: of another position, its note says nothing.
            is_note = dealing.is_moved and columns.AHEAD in write.sets
            is_early = dealing.is_applied and since < least and not is_note
            if is_early and not (process.has_jumped or dealing.is_new):
                return f"the last write was made {since / SECOND:.1f} s before"
        before = dealing.answered.get(write.kind) if write.kind in ONCE else None
        if before is not None and _content(before) == _content(write) and self._stands(write):
            return "the row says it, and an answer has told so"
        if write.kind is WriteKind.RELEASE and dealing.is_answered and dealing.over == ASKED:
            return "its next owner is named already"
        return None

    def _has_news(self, write: LeaseWrite) -> bool:
        """What a heartbeat may tell before its time: attempts, and that nothing is left that owners have died of. What is
        finished ahead goes along with each; it is some by itself if it is not what the row says.
        """
        row = self.world.table.row(write.lease_key) or {}
        says, before = (decode_row({**row, **write.sets}), decode_row(row))
        grows = (
            isinstance(says, Lease) and isinstance(before, Lease) and says.noted_ahead != before.noted_ahead
        )
        clears = columns.CRASHES in write.removes and columns.CRASHES in row
        is_tried = columns.ATTEMPTS in write.sets and write.sets[columns.ATTEMPTS] != row.get(
            columns.ATTEMPTS
        )
        return grows or clears or is_tried

    def _stands(self, write: LeaseWrite) -> bool:
        row = self.world.table.row(write.lease_key) or {}
        says = all(row.get(name) == value for name, value in _content(write).items())
        return says and row.keys().isdisjoint(write.removes)

    def judge(self, process: Process, write: LeaseWrite, result: Applied | Refused) -> str | None:
        """At the moment of the write: why its owner may not go on, once it has the answer."""
        if process.is_java or write.kind in NOT_AN_OWNERS:
            return None
        tenancy = self.world.watch.tenancies.get(write.lease_key)
        if isinstance(result, Applied):
            self.of[process, write.lease_key].confirmed_at = self.of[process, write.lease_key].sent_at
            if write.kind in (WriteKind.RELEASE, WriteKind.HAND_OVER):
                self._check_written(process, write.lease_key)
            return "given back" if write.kind in GIVES_BACK else None
        if tenancy is None or tenancy.owner is not process:
            return "lost"
        row = result.row
        asked = isinstance(row, Lease) and row.checkpoint_owner == tenancy.owner_id
        return ASKED if asked else None

    def answered(
        self, process: Process, write: LeaseWrite, result: Applied | Refused, over: str | None
    ) -> None:
        dealing = self.of.get((process, write.lease_key))
        if dealing is None or write.kind in NOT_AN_OWNERS - {WriteKind.ACQUIRE}:
            return
        dealing.is_answered, dealing.is_applied = True, isinstance(result, Applied)
        dealing.answered[write.kind] = write
        dealing.over = over or dealing.over
        if write.kind is WriteKind.CHECKPOINT:
            dealing.is_checkpoint_answered = True

    def out_of_reach(self, process: Process, key: str, error: str) -> None:
        """A worker takes its lease for lost since no write gets through: not before another may have it."""
        dealing, failover = self.of.get((process, key)), self.world.settings.failover_time // MICROSECOND
        if dealing is None or process.has_jumped or error not in PASSING:
            return
        since = self.world.scheduler.now_us - dealing.confirmed_at
        if since < failover:
            self.world.fail(
                f"lease {key} is given up {since / SECOND:.1f} s after a write, by one that failed"
            )

    def given_up(self, process: Process, key: str) -> None:
        """A worker takes its lease for lost, by what refused a write: not while the row is as its own last write left it, or asks
        it to hand the lease over. Nobody else can have made it so since, unless it was spoilt: then the refusal may be older
        than its mending."""
        if self._is_held(process, key):
            self.world.fail(
                f"lease {key} is given up in vain: the row is as its owner left it, or waits for its owner"
            )

    def _is_held(self, process: Process, key: str) -> bool:
        """The row names it, whoever asks for it."""
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
        dealing = self.of.get((process, key))
        if dealing is not None and dealing.over is not None:
            self.world.fail(f"handler called for {key}, though its worker knows the lease is {dealing.over}")

    def told(self, process: Process, key: str, record: UserRecord) -> None:
        """The engine, that the record and those before it are finished."""
        if dealing := self.of.get((process, key)):
            dealing.told = max(dealing.told, self.world.ledger.shards[key].index_of(record) + 1)

    def hangs(self, process: Process, key: str) -> None:
        if dealing := self.of.get((process, key)):
            dealing.is_hung = True

    # The checkpoint

    def moved(self, key: str) -> None:
        """By an operator, who may have deleted the row or made it unreadable too."""
        for (_, of_key), dealing in self.of.items():
            dealing.is_moved = dealing.is_moved or of_key == key

    def begins_anew(self, process: Process, key: str) -> None:
        """A worker says that another has moved the row under it."""
        dealing, session = self.of[process, key], self.world.ledger.sessions.get((process, key))
        tenancy = self.world.watch.tenancies.get(key)
        is_by_other = session is not None and session.late_to
        if not (dealing.is_moved or is_by_other or (tenancy is not None and tenancy.is_spoilt)):
            self.world.fail(f"{key} is read anew, as if its checkpoint had been moved")

    def _check_written(self, process: Process, key: str) -> None:
        """All that is finished, unless nobody has said what became of the last try."""
        dealing, checkpoint = self.of[process, key], self.world.watch.checkpoints.get(key)
        if dealing.is_moved or dealing.is_hung or not dealing.is_checkpoint_answered or checkpoint is None:
            return
        covered = self.world.ledger.shards[key].covered_by(checkpoint)
        if dealing.told > covered:
            self.world.fail(
                f"{key} is given back at {covered}, though the records before {dealing.told} are finished"
            )

    def _covered(self, key: str, sets: Mapping[str, AttributeValue]) -> int:
        sub = int(sets.get(columns.SUB_SEQUENCE_NUMBER, {"N": "0"})["N"])
        return self.world.ledger.shards[key].covered_by(Checkpoint(sets[columns.CHECKPOINT]["S"], sub))

    # The end

    def left(self, process: Process, report: WindowReport) -> None:
        """A window has ended, as its report says: no lease names its process but what is kept, and what nobody has answered
        about; and of what was lost, too, what is finished was to be written."""
        kept = {lease.lease_key for lease in report.leases if lease.kept is not None}
        lost = {lease.lease_key for lease in report.leases if lease.outcome is Outcome.LEASE_LOST}
        for (who, key), dealing in self.of.items():
            if who is not process or key in kept:
                continue
            if dealing.is_answered and self._is_held(process, key):
                self.world.fail(f"{key} is left behind: its window has ended, and the row names it")
            told_of = max(dealing.tried, self._stands_at(key))
            if key in lost and dealing.told > told_of and not (dealing.is_moved or dealing.is_hung):
                self.world.fail(
                    f"{key} is lost, and nobody tried to write that the records before {dealing.told} are finished"
                )

    def _stands_at(self, key: str) -> int:
        """How far the row says that records are finished: nobody has to write once more what another invocation has."""
        checkpoint = self.world.watch.checkpoints.get(key)
        return self.world.ledger.shards[key].covered_by(checkpoint) if checkpoint is not None else 0


def _content(write: LeaseWrite) -> Row:
    return {name: value for name, value in write.sets.items() if name not in FENCES}
