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
from sublet.protocol.shard import HashKeyRange

if TYPE_CHECKING:
    from sublet.protocol.worker_report import WorkerReport

AttributeValue = Mapping[str, Any]
"""A DynamoDB attribute in its typed JSON form: {"S": "text"}, {"N": "1"}, {"SS": ["a"]}, {"B": b".."}, {"NULL": True}, ..."""


class LeaseFence(NamedTuple):
    """How a lease stood when somebody looked: an acquire succeeds only if it still stands so."""

    lease_key: str
    lease_owner: str | None
    lease_counter: int


class Position(NamedTuple):
    """Where a lease stands: all that its row says of what comes next."""

    checkpoint: Checkpoint
    start_at: datetime | None = None
    """Only beside a checkpoint that begins at a moment."""

    @classmethod
    def of(cls, checkpoint: Checkpoint, start_at: datetime | None) -> Position:
        """By a row's attributes."""
        return cls(checkpoint, start_at if checkpoint in STARTING_AT_A_MOMENT else None)


class Quiet(NamedTuple):
    """No record after this position arrived before this moment, by the service's clock: in whole milliseconds, as a row keeps it.

    It says something of the shard, and nothing of who reads it, so it stays true whatever becomes of the lease. But it is of use
    only to a reader that begins at this very position.
    """

    until: datetime
    after: Position


class Tried(NamedTuple):
    """Which records attempts are of: those after the lease's checkpoint, up to `up_to`. Of those that are handled side by side,
    in so many `lanes`, only the ones in the lane of the first.
    """

    up_to: Checkpoint
    lanes: int = 1


def lease_key_of(shard_id: str) -> str:
    """The key of a shard's lease. In a single-stream application, as all of ours are, KCL takes the shard's id as it is; in a
    multi-stream one `account:stream:creation epoch:` comes before it.
    """
    return shard_id


def shard_id_of(lease_key: str) -> str:
    """The shard of a lease, by its key; see `lease_key_of`."""
    return lease_key


@dataclass(frozen=True, slots=True)
class Lease:
    """KCL's columns in snake case. Immutable: a write yields a new Lease.

    lease_owner           the worker id that holds it, None when nobody does
    lease_counter         rises by one with every heartbeat, acquire and checkpoint; the fence of every write by an owner
    start_at              ours (`subletStartAt`): the moment an AT_TIMESTAMP lease starts from, or at which a LATEST
                          lease was first opened (its pin); gone with the first real checkpoint
    caught_up_at          ours (`subletCaughtUpAt`): a moment at which nothing after the checkpoint of then was in the shard;
                          what has been trimmed since a day after it may have been lost, nothing before
    quiet                 ours (`subletQuietUntil`): up to when nothing is to be read after the checkpoint that it names, which
                          may be another than the row's; see `quiet_until`
    holder                ours (`subletHolder`): which worker item and invocation holds it; worker ids are shared by many
    holder_counter        ours (`subletCounter`): what the counter became with the holder's last write
    crashes               ours (`subletCrashes`): how often an owner has gone without releasing it since the last checkpoint.
                          It outlives a process that a record of it kills, and is void once anybody has got further
    attempts              ours (`subletAttempts`): how often what follows this very checkpoint has been tried in vain
    tried                 of which records (a part of `subletAttempts`); None: attempts are known of the first alone. Without
                          attempts: how far a batch that fails has been narrowed down
    noted_ahead           ours (`subletAhead`): what was finished beyond this very checkpoint, of records handled side by side
    noted_ahead_counter   what the counter became with the write that noted it: see `finished_ahead`
    checkpoint_owner      KCL 3.x graceful handoff: the old owner, which still checkpoints while it drains
    other                 attributes that we do not know, kept as they are
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
    quiet: Quiet | None = None
    holder: str | None = None
    holder_counter: int | None = None
    crashes: int = 0
    attempts: int = 0
    tried: Tried | None = None
    noted_ahead: FinishedAhead | None = None
    noted_ahead_counter: int | None = None
    checkpoint_owner: str | None = None
    pending_checkpoint: Checkpoint | None = None
    pending_checkpoint_state: bytes | None = None
    throughput_kbps: float | None = None
    other: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    @property
    def shard_id(self) -> str:
        """Of the shard that it is the right to consume."""
        return shard_id_of(self.lease_key)

    @property
    def pending(self) -> PendingCheckpoint | None:
        """Both columns as one value."""
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
        """No record after the checkpoint arrived before this moment; None where that is not known of this very checkpoint."""
        return self.quiet.until if self.quiet is not None and self.quiet.after == self.position else None

    @property
    def held_by(self) -> str | None:
        """The holder, unless another has written since: KCL takes and assigns a lease without a look at our attributes."""
        return self.holder if self.holder_counter in (None, self.lease_counter) else None

    @property
    def finished_ahead(self) -> FinishedAhead | None:
        """What is finished beyond the checkpoint, for whoever holds the lease: noted with the last write, or with the one before,
        if the last one was this holder's acquire. After any other's write it is void: that may have come round to the checkpoint.
        """
        is_of_now = self.noted_ahead_counter in (self.lease_counter, self.lease_counter - 1)
        return self.noted_ahead if is_of_now else None

    @property
    def is_ended(self) -> bool:
        return self.checkpoint.is_shard_end

    @property
    def actual_owner(self) -> str | None:
        """Who is consuming now: in a KCL 3.x handoff that is still the old owner."""
        return self.checkpoint_owner or self.lease_owner


class MalformedRow(Struct, frozen=True):
    """A row that KCL could not have written. It is reported and left untouched, and its shard alone waits."""

    lease_key: str
    problem: str


class LeaseScan(Struct, frozen=True):
    """The lease table as one scan saw it. Rows of any other entityType are in none of these.

    multi_stream   lease keys of a multi-stream KCL application: well formed, and not of this application's one stream.
                   They are left alone
    reports        by which workers of a KCL 3.5 tell that they live
    client_version by whose rules they work, if it stands here
    at             when it ended, by the service's own clock, in whole seconds; None where the service does not tell
    """

    leases: tuple[Lease, ...]
    malformed: tuple[MalformedRow, ...] = ()
    multi_stream: tuple[str, ...] = ()
    reports: tuple[WorkerReport, ...] = ()
    client_version: str | None = None
    at: datetime | None = None
