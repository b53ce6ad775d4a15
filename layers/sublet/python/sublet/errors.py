"""Every error that sublet raises on purpose, as one tree. Each message ends with what to do about it.

    SubletError
    ├── SettingsError            a setting is unknown, malformed or contradicts another
    │   └── SettingsInConflict   a program was given another option than its consumer's definition has
    ├── AwsNotConfigured         no region, or no credentials that AWS would take
    ├── EventError               a function was invoked with an event that it cannot read
    ├── HandlerNotLoadable       the user's `module:function` cannot be imported or is no function
    ├── HandlerContractBroken    the user's handler returned something that says that its work is not done
    ├── HandlerOverdue           a handler call that was given up goes on all the same, and wants to checkpoint
    ├── ProcessSpent             the process can do no more, and a new one can
    ├── RecordUnreadable         a record cannot be handed over because of what it holds
    ├── BatchItemsFailed         the user's handler reported records of its batch as failed
    ├── DestinationRefused       the failure destination has not taken, or not given, what it was asked to
    ├── WorkerIdInUse            another process consumes under this one's worker id
    ├── OffsetMalformed          Spark: the query's checkpoint holds an offset that this source cannot read
    ├── RowNotWritable           Spark: a row that Kinesis would not take, such as one without a partition key
    ├── MalformedCheckpoint      text that is neither a sequence number nor one of KCL's sentinels
    ├── TransientError           passes by itself: whoever meets one may go on, and try again later
    │   ├── StreamUnavailable        (a StreamError too) Kinesis could not be reached, or kept failing
    │   │   └── StreamUnreachable        it gave no reply at all
    │   └── LeaseTableUnavailable    (a LeaseTableError too) DynamoDB could not be reached, or kept failing
    ├── StreamError              the stream said no, and asking again will not help, unless it is a TransientError
    │   ├── StreamNotFound       there is no such stream (deleted, or misspelt)
    │   ├── StreamExists         it was to be created, and one of its name is there
    │   ├── ShardNotFound        the stream no longer has this shard: its records are past retention
    │   ├── CheckpointNotInStream  the sequence number belongs to another stream or shard
    │   ├── StreamKeyUnavailable the stream's KMS key is disabled, deleted or denied to us
    │   ├── StreamAccessDenied   the role lacks a Kinesis permission
    │   ├── StreamNotAdopted     it is not the stream, or may not be, that the application's leases are of
    │   ├── StreamRecreated      Spark: the stream is not the one that the query's checkpoint is of
    │   └── DataGap              Spark: records that the query has not read are past retention
    └── LeaseTableError          the lease table said no, and asking again will not help, unless it is a TransientError
        ├── LeaseTableNotFound   there is no such table
        ├── LeaseTableKeyUnexpected  the table's key is not KCL's `leaseKey`
        ├── LeaseTableAccessDenied   the role lacks a DynamoDB permission
        ├── LeaseHeldElsewhere   Spark: a query cannot go on, or has nothing to read, because others keep the leases
        └── LeaseKeeperGone      Spark: nobody keeps the query's leases any more

Whether an error is transient is asked of its type (`except TransientError`) and nowhere decided by a list of names.
Expected outcomes (a lost race, a throttled poll, an expired iterator, a malformed row) are values, not errors.
"""

from __future__ import annotations

from enum import Enum
from reprlib import Repr

SHOWN_MAX = 200
"""Characters of an outside value in an error: an event may have been meant for another function, and hold anything."""

_START = Repr()
"""Looks only as deep and as far as it shows: the usual repr of a value that nests a thousand levels raises."""
_START.maxstring = _START.maxother = 250


class SubletError(Exception):
    """The root: `except SubletError` catches all that sublet raises on purpose."""


class SettingsError(SubletError):
    """A setting is refused. Names the setting, its value, and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name = name
        self.value = value
        self.allowed = allowed
        shown = value.value if isinstance(value, Enum) else value
        super().__init__(f"setting {name} = {_START.repr(shown)}: {allowed}")


class SettingsInConflict(SettingsError):
    """A program was given another option than its consumer's definition has, which all of its programs go by."""


class AwsNotConfigured(SubletError):
    """This process has no region, or no credentials that AWS would take. Nothing was asked of the stream or the table."""


class EventError(SubletError):
    """A function's event cannot be read. Names the field, the start of what stood there, and what belongs there."""

    def __init__(self, field: str, found: object, expected: str) -> None:
        self.field = field
        super().__init__(f"event field {field} is {_START.repr(found)[:SHOWN_MAX]}; expected {expected}")


class HandlerNotLoadable(SubletError):
    """The user's handler cannot be used. Raised before any lease is touched."""


class HandlerContractBroken(SubletError):
    """A handler's call did not do its work, though it returned: the batch is not done, and comes again. Says what to change."""


class HandlerOverdue(SubletError):
    """This call took longer than handler_timeout, or than its window: its lease was given up, and its records come to another
    call, which may be under way. What it still does is done twice; it should end.
    """


class ProcessSpent(SubletError):
    """This process cannot go on, and a new one could: handler calls hang in all its slots, or the system has no more threads or
    descriptors for it. Every lease has been released.
    """


class BatchItemsFailed(SubletError):
    """The handler returned batchItemFailures: what is before the first of them is done, and the rest comes again; or it returned
    some that name no record of its batch, and all of it comes again. Names positions, and nothing that the handler returned.
    """


class RecordUnreadable(SubletError):
    """A record cannot be handed over because of what it holds, such as JSON nested too deep for filter_criteria. It counts as a
    failed call with this record alone. Names the position and the error behind it, not what the record holds.
    """


class DestinationRefused(SubletError):
    """The failure destination said no, or could not be reached. What is to be set aside waits, and nothing is gone past."""


class WorkerIdInUse(SubletError):
    """Another process consumes under the worker id that this one was given. This one has taken no lease."""


class MalformedCheckpoint(SubletError):
    """Text in a checkpoint's place that is neither a sequence number nor a sentinel."""


class OffsetMalformed(SubletError):
    """An offset of Spark's log that is another source's, another version's, or damaged."""


class RowNotWritable(SubletError):
    """A row for the sink that Kinesis would refuse for ever. Names the column, its value, and what is allowed."""


class TransientError(SubletError):
    """It passes by itself, and nothing is known to be wrong. Calls have been retried inside for as long as that is of use."""


class StreamError(SubletError):
    """The stream refused. Retrying the same call will not help, unless this is a TransientError too."""


class StreamNotFound(StreamError):
    """There is no such stream in this account and region."""


class StreamExists(StreamError):
    """A stream of this name is there already."""


class ShardNotFound(StreamError):
    """The stream does not have this shard (any more)."""


class CheckpointNotInStream(StreamError):
    """Kinesis does not accept the sequence number for this shard: the stream was recreated, or the row is another's."""


class StreamKeyUnavailable(StreamError):
    """The stream is encrypted with a KMS key that is disabled, pending deletion, or denied to this role."""


class StreamAccessDenied(StreamError):
    """This role lacks a permission on the stream."""


class StreamNotAdopted(StreamError):
    """The application's leases are of another stream, such as this one before it was deleted and created anew; or their table
    tells so. Nothing has been written. Says what was found, and how to have the leases go on on this stream all the same.
    """


class StreamRecreated(StreamError):
    """A stream of this name exists, but it is not the one whose positions the query's checkpoint holds."""


class DataGap(StreamError):
    """Records that a Spark query has not read are past retention. `failOnDataLoss=false` warns instead, and goes on."""


class StreamUnavailable(StreamError, TransientError):
    """Kinesis could not be reached or kept failing. Nothing is known to be wrong with the stream; the next window tries again."""


class StreamUnreachable(StreamUnavailable):
    """No reply came at all: no network, a wrong endpoint, or a service that is down."""


class LeaseTableError(SubletError):
    """The lease table refused. Retrying the same call will not help, unless this is a TransientError too."""


class LeaseTableNotFound(LeaseTableError):
    """There is no such table in this account and region."""


class LeaseTableKeyUnexpected(LeaseTableError):
    """The table exists but its key is not KCL's `leaseKey` (string): it is some other table."""


class LeaseTableAccessDenied(LeaseTableError):
    """This role lacks a permission on the table."""


class LeaseHeldElsewhere(LeaseTableError):
    """A batch of a Spark query has to be done again, and another owner holds a shard's lease without getting past the batch; or
    a run for what is there would end without having read anything, since others hold all leases."""


class LeaseKeeperGone(LeaseTableError):
    """The thread that keeps a Spark query's leases has ended before the query."""


class LeaseTableUnavailable(LeaseTableError, TransientError):
    """DynamoDB could not be reached or kept failing. A write may or may not have happened; the next one finds out."""
