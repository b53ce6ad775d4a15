"""A lease: the right to consume one shard, and how far it has been consumed. One row of KCL's lease table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from sublet.protocol.checkpoint import STARTING_AT_A_MOMENT, Checkpoint, PendingCheckpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.shard import HashKeyRange

if TYPE_CHECKING:
    from sublet.protocol.worker_report import WorkerReport

AttributeValue = Mapping[str, Any]
"""A DynamoDB attribute in its typed JSON form: {"S": "text"}, {"N": "1"}, {"SS": ["a"]}, {"B": b".."}, {"NULL":
True}
"""


class LeaseFence(NamedTuple):
    """A lease's row as it was read: an acquire succeeds only if it is still the same."""

    lease_key: str
    lease_owner: str | None
    lease_counter: int


class Position(NamedTuple):
    """A lease's position: all that its row says about what to read next."""

    checkpoint: Checkpoint
    start_at: datetime | None = None
    """The moment is set only with a checkpoint that begins at a time."""

    @classmethod
    def of(cls, checkpoint: Checkpoint, start_at: datetime | None) -> Position:
        """Makes the position from a row's attributes."""
        has_start = start_at is not None and checkpoint in STARTING_AT_A_MOMENT
        return cls(checkpoint, start_at if has_start else None)


class QuietUntil(NamedTuple):
    """No record after this position arrived before this time, by the service's clock, in whole milliseconds as a row
    keeps it.

    It is a fact about the shard, not its reader, so it stays true whatever happens to the lease. But it helps only a
    reader that begins at this very position.
    """

    until: datetime
    after: Position


class AttemptedRecords(NamedTuple):
    """The records that attempts count for: those after the lease's checkpoint, up to `up_to`. If they are handled in
    parallel, in `lanes` lanes, only the records in the first one's lane.
    """

    up_to: Checkpoint
    lanes: int = 1


def lease_key_of(shard_id: str) -> str:
    """The key of a shard's lease: the shard's name in the application (`protocol.stream_key`), as in KCL."""
    return shard_id


def shard_id_of(lease_key: str) -> str:
    """The shard's name in the application, from its lease's key. The id alone only in an application of one stream."""
    return lease_key


@dataclass(frozen=True, slots=True)
class Lease:
    """KCL's columns in snake case. Immutable: a write yields a new Lease.

    lease_owner          the worker id that holds it; None if it is free
    lease_counter        rises by one with every heartbeat, acquire and checkpoint; the fence of every write by an owner
    start_at             ours (`subletStartAt`): the time an AT_TIMESTAMP lease starts from, or when a LATEST lease was
                         first opened (its pin); removed by the first real checkpoint
    caught_up_at         ours (`subletCaughtUpAt`): a time at which the shard held nothing after the checkpoint of that
                         time; only records that arrived later can have been trimmed unread, from a day after it on
    quiet                ours (`subletQuietUntil`): until when nothing follows the checkpoint that it names, which may
                         differ from the row's; see `quiet_until`
    lag_report           ours (`subletLag`): what its owner said about this very checkpoint: lag, arrival time, rates
    lag_history          ours (`subletSeen`): the last ten reports, oldest first. It stays when the position is moved
    holder               ours (`subletHolder`): the worker item and invocation that hold it; many share a worker id
    holder_counter       ours (`subletCounter`): the counter after the holder's last write
    crashes              ours (`subletCrashes`): how many owners have gone without releasing it since the last
                         checkpoint. It survives a process that a record kills, and is void after any progress
    attempts             ours (`subletAttempts`): failed attempts at what follows this very checkpoint
    tried                the records of the attempts (a part of `subletAttempts`); None: only the first record's
                         attempts are known. Without attempts: how far a failing batch has been narrowed down
    failing              ours (`subletFailing`): how the handler fails with what follows this very checkpoint
    unanswered_since     ours (`subletUnanswered`): since when the reads of its owner, who wrote last, have got no
                         answer
    noted_ahead          ours (`subletAhead`): which records, handled in parallel, were finished beyond this very
                         checkpoint
    noted_ahead_counter  the counter after the write that noted it: see `finished_ahead`
    checkpoint_owner     KCL 3.x graceful handoff: the old owner, which still checkpoints while it drains
    other                unknown attributes, kept as they are
    """

    lease_key: str
    checkpoint: Checkpoint
    lease_counter: int = 0
    lease_owner: str | None = None
    owner_switches_since_checkpoint: int = 0
    parent_shard_ids: frozenset[str] = frozenset()
    child_shard_ids: frozenset[str] = frozenset()
    hash_key_range: HashKeyRange | None = None
    start_at: datetime | None = None
    caught_up_at: datetime | None = None
    quiet: QuietUntil | None = None
    lag_report: LagReport | None = None
    lag_history: tuple[LagSeen, ...] = ()
    holder: str | None = None
    holder_counter: int | None = None
    crashes: int = 0
    attempts: int = 0
    tried: AttemptedRecords | None = None
    failing: HandlerFailure | None = None
    unanswered_since: datetime | None = None
    noted_ahead: FinishedAhead | None = None
    noted_ahead_counter: int | None = None
    checkpoint_owner: str | None = None
    pending_checkpoint: Checkpoint | None = None
    pending_checkpoint_state: bytes | None = None
    throughput_kbps: float | None = None
    other: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    @property
    def reported_at(self) -> datetime | None:
        """The last known time at which an owner of ours wrote to the row, perhaps before its position was moved. None
        if nothing in the row says it.
        """
        moments = (
            self.caught_up_at,
            None if self.lag_report is None else self.lag_report.at,
            *(seen.at for seen in self.lag_history[-1:]),
        )
        return max((at for at in moments if at is not None), default=None)

    @property
    def shard_id(self) -> str:
        return shard_id_of(self.lease_key)

    @property
    def pending(self) -> PendingCheckpoint | None:
        """The pending checkpoint and its state as one value."""
        if self.pending_checkpoint is None:
            return None
        return PendingCheckpoint(self.pending_checkpoint, self.pending_checkpoint_state)

    @property
    def fence(self) -> LeaseFence:
        return LeaseFence(self.lease_key, self.lease_owner, self.lease_counter)

    @property
    def position(self) -> Position:
        return Position.of(self.checkpoint, self.start_at)

    @property
    def quiet_until(self) -> datetime | None:
        """No record after the checkpoint arrived before this time; None if that is not known for this very
        checkpoint.
        """
        return self.quiet.until if self.quiet is not None and self.quiet.after == self.position else None

    @property
    def held_by(self) -> str | None:
        """The holder, unless another worker has written since: KCL takes and assigns leases without changing our
        attributes.
        """
        return self.holder if self.holder_counter in (None, self.lease_counter) else None

    @property
    def finished_ahead(self) -> FinishedAhead | None:
        """What is finished beyond the checkpoint, for the lease's holder. It was noted with the last write, or with the
        one before if the last was this holder's acquire. A write by any other worker voids it: that worker may have
        moved the position and come back to the same checkpoint.
        """
        is_of_now = self.noted_ahead_counter in (self.lease_counter, self.lease_counter - 1)
        return self.noted_ahead if is_of_now else None

    @property
    def is_ended(self) -> bool:
        return self.checkpoint.is_shard_end

    @property
    def actual_owner(self) -> str | None:
        """The consuming worker: during a KCL 3.x handoff, still the old owner."""
        return self.checkpoint_owner or self.lease_owner


class MalformedRow(Struct, frozen=True):
    """A row that KCL could not have written. It is reported and left untouched, and only its shard waits."""

    lease_key: str
    problem: str


class LeaseScan(Struct, frozen=True):
    """One scan of the lease table. Rows of other entity types are left out.

    leases          readable rows
    malformed       unreadable rows
    multi_stream    keys of leases of several streams, in the scan of an application of one stream. They are left alone
    reports         show which workers of KCL 3.5 are alive
    client_version  the version by whose rules these workers work, if the table has it
    at              when the scan ended, by the service's own clock, in whole seconds; None if the service did not send
                    it
    single_stream   keys of leases of a single stream, in the scan of an application of several. They are left alone
    other_kind      those of either kind that can be read
    """

    leases: tuple[Lease, ...]
    malformed: tuple[MalformedRow, ...] = ()
    multi_stream: tuple[str, ...] = ()
    reports: tuple[WorkerReport, ...] = ()
    client_version: str | None = None
    at: datetime | None = None
    single_stream: tuple[str, ...] = ()
    other_kind: tuple[Lease, ...] = ()
