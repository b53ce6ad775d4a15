"""What a handler meets: a `Batch` of records, and the functions that may stand beside `handle`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from types import ModuleType
from typing import Any, Protocol

from msgspec import Struct

from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.records import UserRecord
from sublet.protocol.stream_identity import StreamArn


def no_deadline() -> int:
    """Milliseconds: a day, for a batch that no window's end cuts short."""
    return 24 * 60 * 60 * 1000


class CheckpointReply(StrEnum):
    """What became of a checkpoint by position."""

    WRITTEN = "written"
    OUT_OF_REACH = "out of reach"
    """The lease table could not be reached: it may be tried again."""
    TOO_LATE = "too late"
    """The lease is no longer ours, or was given up, or its checkpoint was moved by an operator."""


def too_late(_: Checkpoint) -> CheckpointReply:
    """For a batch that has no lease: Spark's, or a test's."""
    return CheckpointReply.TOO_LATE


def never_written(_: UserRecord, __: bytes) -> bool:
    """For a batch that has no lease: Spark's, or a test's."""
    return False


class Batch(Struct, frozen=True):
    """What a handler is given: user records of one shard, in order, none of them finished before by this window.

    records                     at least one; see UserRecord
    millis_behind_latest        how far the end of the poll they came from is behind the shard's tip, in milliseconds
    checkpoint(record)          "this record and all before it are done", also if the call fails afterwards. Optional, unless
                                `checkpointing` is manual: then nothing else says so, and it may be called for a batch of
                                earlier as well, until the lease is given up. Whether the lease table has it: with manual
                                False means that the lease is lost or the table out of reach
    stream_arn                  None where nobody has told: a deployment or process without the setting `stream_arn`
    attempt                     1 for the first call that begins with this record in this window, 2 for its first retry
    remaining_time_in_millis()  until the window wants to end: no call begins after it, the one under way may go on into
                                `window_margin`. Never negative; 0 as soon as the lease is to be left, also before its time
    prepare_checkpoint(record, state)
                                the first of two phases (KCL's pending checkpoint): `state`, bytes of yours, is kept beside the
                                place that is to be checkpointed, and given back with the lease to whoever comes before it is
                                checkpointed. Whether it is written
    checkpoint_at(position)     with manual checkpointing: the same as `checkpoint` by position, for whoever keeps no records
    is_redrive                  `sublet redrive` hands these records over: they were set aside, and what follows on them in the
                                shard may have been handled since
    """

    stream: str
    shard_id: str
    records: Sequence[UserRecord]
    millis_behind_latest: int
    checkpoint: Callable[[UserRecord], bool]
    stream_arn: str | None = None
    attempt: int = 1
    remaining_time_in_millis: Callable[[], int] = no_deadline
    prepare_checkpoint: Callable[[UserRecord, bytes], bool] = never_written
    checkpoint_at: Callable[[Checkpoint], CheckpointReply] = too_late
    is_redrive: bool = False

    def __repr__(self) -> str:
        """Without the data: a batch may well end up in a log."""
        span = f", {self.records[0].checkpoint} to {self.records[-1].checkpoint}" if self.records else ""
        return f"<Batch of {self.stream} {self.shard_id}: {len(self.records)} records{span}, attempt {self.attempt}>"

    @property
    def account(self) -> str | None:
        """The stream's AWS account, of twelve digits; None without a `stream_arn`."""
        return StreamArn.parse(self.stream_arn).account if self.stream_arn else None

    @property
    def region(self) -> str | None:
        """The stream's; None without a `stream_arn`."""
        return StreamArn.parse(self.stream_arn).region if self.stream_arn else None


class HandlesBatches(Protocol):
    """What an object needs to be a handler. It may have the other functions of Handler too."""

    def handle(self, batch: Batch, /) -> Awaitable[None] | None: ...


UserHandler = (
    Callable[[Batch], None]
    | Callable[[Batch], Awaitable[None]]
    | Callable[[Any, Any], object]
    | Callable[[], object]
    | HandlesBatches
    | ModuleType
    | str
)
"""A handler as a user gives it: a function, an object or module with `handle`, or `module:function`; of (event, context) for the
contract `lambda_event`; for `record_processor` a class, or what else makes a processor."""


class Handler(Protocol):
    """The user's code. `handle` alone is required of a user; `sublet.handlers.load` fills the others in with nothing.

    What they raise is logged and counted. One lease's calls never overlap; calls for several leases do if
    `handler_concurrency` is more than 1.
    """

    def handle(self, batch: Batch) -> None:
        """Returning means done, or with manual checkpointing "give me more". Raising means: nothing after the last
        `batch.checkpoint` is done; the batch comes again.
        """

    def lease_acquired(
        self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None
    ) -> None:
        """Before the first batch of a lease in this window; and again, with nothing said of a loss, when an operator has moved
        its checkpoint in the table: state kept for it is stale, and `checkpoint` is where the next batch begins.

        `pending`: what is prepared in the row and not checkpointed yet. A user's function gets it if it takes three arguments."""

    def lease_releasing(self, shard_id: str) -> None:
        """The lease, still ours, is about to be released before its shard's end: flush what is kept for it. A
        `batch.checkpoint(record)` made in here, of any batch of this lease, still gets written. With manual checkpointing it
        comes at the end of each window, also where the lease is kept for the next: that one begins at the checkpoint."""

    def lease_lost(self, shard_id: str) -> None:
        """Another owner has the lease; no more batches of it will come, and state kept for it is stale."""

    def shard_ended(self, shard_id: str) -> None:
        """Every record of the shard has been handled, or handed over; what is kept has to be checkpointed in here. Raising keeps
        the shard from being ended, and so does a record that is not checkpointed."""
