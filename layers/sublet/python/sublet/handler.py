"""What a handler gets: a `Batch` of records, and the functions that it may have besides `handle`."""

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
    """Milliseconds: a day, for a batch that no window's end interrupts."""
    return 24 * 60 * 60 * 1000


class CheckpointReply(StrEnum):
    """The result of a checkpoint by position."""

    WRITTEN = "written"
    OUT_OF_REACH = "out of reach"
    """The lease table could not be reached; a retry may succeed."""
    TOO_LATE = "too late"
    """The lease is lost or given up, or an operator has moved its checkpoint."""


def too_late(_: Checkpoint) -> CheckpointReply:
    """Refuses every checkpoint by position: a batch of Spark or of a test has no lease."""
    return CheckpointReply.TOO_LATE


def never_written(_: UserRecord, __: bytes) -> bool:
    """Says that nothing was written: a batch of Spark or a test has no lease."""
    return False


class Batch(Struct, frozen=True):
    """The argument of a handler: user records of one shard, in order, none of them finished before in this window.

    shard_id                           the shard's id; with the setting `streams` its name among all of them, since ids
                                       repeat: account:stream:creation epoch:shard id
    records                            at least one; see UserRecord
    millis_behind_latest               how far the poll that fetched them ended behind the shard's tip, in milliseconds
    checkpoint(record)                 this record and all before it are done, even if the call fails afterwards.
                                       Optional, unless `checkpointing` is manual: then only this marks records as done,
                                       and it may be called for an earlier batch too, until the lease is given up.
                                       Returns whether the lease table has it; with manual checkpointing False means
                                       that the lease is lost or the table out of reach
    stream_arn                         None in a deployment or process without the setting `stream_arn`
    attempt                            1 for the first call that begins with this record, 2 for its first retry; it goes
                                       on in the next window, also of another owner. With `parallelization_factor`, some
                                       begin again there
    remaining_time_in_millis()         until the end of the window, or until `handler_timeout` gives this call up if
                                       that is sooner: a call that is given up may come again. No call begins after the
                                       window's end, and the current one may go on into `window_margin`. Never negative;
                                       0 as soon as the lease is to be released, even before the window ends
    prepare_checkpoint(record, state)  the first of two phases (KCL's pending checkpoint): stores `state`, bytes of
                                       yours, with the future checkpoint, and returns both to the next owner of the
                                       lease if it is not checkpointed before. Returns whether it is written
    checkpoint_at(position)            with manual checkpointing: the same as `checkpoint` by position, for handlers
                                       that keep no records
    is_redrive                         `sublet redrive` hands these records over: they were set aside, and later records
                                       of the shard may have been handled since
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
        """Leaves the data out, since a batch may end up in a log."""
        span = f", {self.records[0].checkpoint} to {self.records[-1].checkpoint}" if self.records else ""
        return f"<Batch of {self.stream} {self.shard_id}: {len(self.records)} records{span}, attempt {self.attempt}>"

    @property
    def account(self) -> str | None:
        """The stream's AWS account, twelve digits; None without a `stream_arn`."""
        return StreamArn.parse(self.stream_arn).account if self.stream_arn else None

    @property
    def region(self) -> str | None:
        """The stream's region; None without a `stream_arn`."""
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
"""A handler as a user gives it: a function, an object or module with `handle`, or `module:function`. For the contract
`lambda_event` the function takes (event, context); for `record_processor` it is a class, or a callable that makes a
processor.
"""


class Handler(Protocol):
    """The user's code. Only `handle` is required of a user; `sublet.handlers.load` replaces missing functions by ones
    that do nothing.

    Exceptions are logged and counted. One lease's calls never overlap; calls for different leases do if
    `handler_concurrency` is more than 1.
    """

    def handle(self, batch: Batch) -> None:
        """Returning means that the batch is done, or with manual checkpointing that the handler wants more. After an
        exception nothing after the last `batch.checkpoint` is done, and the batch is retried.
        """

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        """Called before the first batch of a lease in this window. It is called again, without lease_lost, if an
        operator has moved its checkpoint in the table: then state kept for it is stale. `checkpoint` is where the next
        batch begins.

        `pending`: a prepared checkpoint in the row that is not checkpointed yet. A user's function gets it if it takes
        three arguments.
        """

    def lease_releasing(self, shard_id: str) -> None:
        """The lease, still ours, is about to be released before its shard's end: flush state that is kept for it. A
        `batch.checkpoint(record)` made in here, for any batch of this lease, is still written. With manual
        checkpointing it is called at the end of each window, even if the lease is kept for the next one, which then
        begins at the checkpoint.
        """

    def lease_lost(self, shard_id: str) -> None:
        """Another owner has the lease: no more batches of it will come, and state kept for it is stale."""

    def shard_ended(self, shard_id: str) -> None:
        """Every record of the shard has been handled, or handed over; checkpoint in here what the handler still holds.
        An exception keeps the shard from being ended, and so does a record that is not checkpointed.
        """


def does_nothing(handler: Handler) -> frozenset[str]:
    """The optional functions that need not be called: those that the handler names in `without`, if it has that
    attribute.

    `shard_ended` is not one of them, since after it every record of the shard has to be checkpointed.
    """
    without: frozenset[str] = getattr(handler, "without", frozenset())
    return without


def waits_for_program(handler: Handler) -> bool:
    """Whether a call lasts until a program has asked for its records, so that its duration says nothing of its work:
    if the handler says so in `is_pulled`.
    """
    is_pulled: bool = getattr(handler, "is_pulled", False)
    return is_pulled
