"""Every error that sublet raises on purpose, as one tree. Each message ends with what to do about it.

    SubletError
    ├── SettingsError            a setting is unknown, malformed or contradicts another
    │   └── SettingsInConflict   a program's option differs from its consumer's definition
    ├── AwsNotConfigured         no region, or no credentials that AWS accepts
    ├── EventError               a function was invoked with an event that it cannot parse
    ├── HandlerNotLoadable       the user's `module:function` cannot be imported or is not a function
    ├── HandlerContractBroken    the user's handler returned without doing its work
    ├── HandlerOverdue           an abandoned handler call goes on, and tries to checkpoint
    ├── ProcessSpent             the process cannot go on, and a new one can
    ├── RecordUnreadable         a record cannot be handed over because of its content
    ├── PayloadUnreadable        a record's data is not what its format says
    ├── PayloadNotEncodable      a value does not fit the format or schema that it is to be put in
    ├── SchemaRegistryError      the schema registry refused, and a retry will not help, unless it is a TransientError
    │   ├── SchemaNotUsable      the registry answers, and no record can be read by this schema version
    │   ├── SchemaRegistryAccessDenied   the role lacks a permission on the registry
    │   └── SchemaRegistryUnavailable    (a TransientError too) the registry could not be reached, or kept failing
    ├── BatchItemsFailed         the user's handler reported records of its batch as failed
    ├── DestinationRefused       the failure destination has not accepted or not returned a batch
    ├── WorkerIdInUse            another process consumes under this one's worker id
    ├── OffsetMalformed          Spark: the query's checkpoint holds an offset that this source cannot parse
    ├── ProducerClosed           a record was put after its producer was closed
    ├── ProducerFailed           a producer stopped because of a fault in sublet itself
    ├── CheckRefused             AWS did not answer a call of `sublet doctor` or `sublet cost`
    ├── SnapshotUnreadable       a snapshot of positions is damaged, or is something else
    ├── SeekRefused              positions were not moved as ordered: a lease prevents it
    ├── ControlUnreadable        the item with an operator's orders for the leases cannot be read
    ├── RemovalRefused           leases of a stream were not removed: a program reads it, or may read it
    ├── ControlRefused           leases were not paused, resumed or released as ordered
    ├── MalformedCheckpoint      text that is neither a sequence number nor one of KCL's sentinels
    ├── TransientError           passes by itself: go on, and try again later
    │   ├── StreamUnavailable        (a StreamError too) Kinesis could not be reached, or kept failing
    │   │   ├── StreamUnreachable        there was no reply at all
    │   │   └── RecordTimedOut           a producer gave a record up that Kinesis kept refusing
    │   └── LeaseTableUnavailable    (a LeaseTableError too) DynamoDB could not be reached, or kept failing
    ├── StreamError              the stream refused, and a retry will not help, unless it is a TransientError
    │   ├── StreamNotFound       there is no such stream (deleted, or misspelt)
    │   ├── StreamExists         a stream to be created exists already
    │   ├── ShardNotFound        the stream no longer has this shard: its records are past retention
    │   ├── CheckpointNotInStream  the sequence number belongs to another stream or shard
    │   ├── StreamKeyUnavailable the stream's KMS key is disabled, deleted or denied to us
    │   ├── StreamAccessDenied   the role lacks a Kinesis permission
    │   ├── StreamNotAdopted     it is not the stream of the application's leases, or may not be
    │   ├── StreamRecreated      Spark: the stream is not the one of the query's checkpoint
    │   ├── RecordRefused        Kinesis would never accept the record, such as one that is too large
    │   ├── RecordsNotPut        a producer gave records up
    │   └── DataGap              Spark: records that the query has not read are past retention
    └── LeaseTableError          the lease table refused, and a retry will not help, unless it is a TransientError
        ├── LeaseTableNotFound   there is no such table
        ├── LeaseTableKeyUnexpected  the table's key is not KCL's `leaseKey`
        ├── LeaseTableAccessDenied   the role lacks a DynamoDB permission
        ├── LeaseHeldElsewhere   Spark: a query cannot go on, or has nothing to read, because others keep the leases
        └── LeaseKeeperGone      Spark: the thread that keeps the query's leases has ended

`except TransientError` catches every transient error: only the type says it, and there is no list of names.
Two classes are mixed into others of the tree, and `decisions.patience` judges by them whether a process that has worked
goes on:

    ├── CallFailed               every StreamError, LeaseTableError and AwsNotConfigured: AWS refused a call, or did not
                                 answer
    └── FinalError               those of them that waiting does not help

Expected outcomes (a lost race, a throttled poll, an expired iterator, a malformed row) are values, not errors.
"""

from __future__ import annotations

from enum import Enum
from reprlib import Repr

SHOWN_MAX = 200
"""How many characters of an outside value an error shows: an event may have been meant for another function, and hold
anything.
"""

_START = Repr()
"""Inspects only what it shows: the usual repr raises for a value that nests a thousand levels."""
_START.maxstring = _START.maxother = 250


class SubletError(Exception):
    """The root: `except SubletError` catches everything that sublet raises on purpose."""


class CallFailed(SubletError):
    """A call to AWS failed, or was refused. `decisions.patience` says whether to make it again."""


class FinalError(SubletError):
    """Waiting does not help: what was asked for is missing or is another, and to go on could do harm."""


class SettingsError(SubletError):
    """A setting is refused. Names the setting, its value, and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name = name
        self.value = value
        self.allowed = allowed
        shown = value.value if isinstance(value, Enum) else value
        is_missing = value is None and allowed.startswith("required")
        super().__init__(
            f"setting {name} is {allowed}" if is_missing else f"setting {name} = {_START.repr(shown)}: {allowed}"
        )


class SettingsInConflict(SettingsError):
    """A program was given an option that differs from its consumer's definition, which all its programs share."""


class AwsNotConfigured(CallFailed):
    """This process has no region, or no credentials that AWS accepts. No call to the stream or the table was made."""


class EventError(SubletError):
    """A function's event cannot be parsed. Names the field, the start of its value, and what was expected."""

    def __init__(self, field: str, found: object, expected: str) -> None:
        self.field = field
        super().__init__(f"event field {field} is {_START.repr(found)[:SHOWN_MAX]}; expected {expected}")


class HandlerNotLoadable(SubletError):
    """The user's handler cannot be used. Raised before any lease is touched."""


class HandlerContractBroken(SubletError):
    """A handler's call returned without doing its work: the batch is not done, and is retried. Says what to change."""


class HandlerOverdue(SubletError):
    """This call took longer than handler_timeout or its window allows: its lease was given up, and its records go to
    another call, which may be under way. Whatever it still does is done twice, so it should stop.
    """


class ProcessSpent(SubletError):
    """This process cannot go on, and a new one could: handler calls hang in all its slots, or the system has no more
    threads or descriptors for it. Every lease has been released.
    """


class BatchItemsFailed(SubletError):
    """The handler returned batchItemFailures: records before the first failure are done, and the rest is retried. If an
    entry names no record of the batch, all of it is retried. Names positions, and nothing that the handler returned.
    """


class RecordUnreadable(SubletError):
    """A record cannot be handed over because of its content, such as JSON nested too deep for filter_criteria. It
    counts as a failed call with this record alone. Names the position and the error behind it, not the content.
    """


class PayloadUnreadable(SubletError):
    """A record's data cannot be decoded by its format. Says why, and nothing of the data but what a decoder of the
    user's own says.
    """


class PayloadNotEncodable(SubletError):
    """A value does not fit the format or the schema that it is to be put in. Nothing was put."""


class SchemaRegistryError(SubletError):
    """The schema registry refused. That it does not have a schema version is no error, but a fact about the record."""


class SchemaNotUsable(SchemaRegistryError):
    """The registry answers, but not with a schema by which this version's records can be read. For a record that names
    the version, this is a PayloadUnreadable.
    """


class SchemaRegistryAccessDenied(SchemaRegistryError):
    """This role, or this user of the registry, lacks a permission. Names it."""


class DestinationRefused(SubletError):
    """The failure destination refused, or could not be reached. Records to be set aside wait, and none is skipped."""


class WorkerIdInUse(SubletError):
    """Another process consumes under this one's worker id. This one has taken no lease."""


class MalformedCheckpoint(SubletError):
    """A checkpoint's text is neither a sequence number nor a sentinel."""


class OffsetMalformed(SubletError):
    """An offset of Spark's log belongs to another source or version, or is damaged."""


class ProducerClosed(SubletError):
    """The producer is closed and takes no more records."""


class ProducerFailed(SubletError):
    """The producer has stopped because of a fault in sublet itself, which is the cause. The futures of its unfinished
    records raise this, and so does each later put.
    """


class TransientError(SubletError):
    """A failure that passes by itself; nothing is known to be wrong. Calls have already been retried for as long as
    that helps.
    """


class SchemaRegistryUnavailable(SchemaRegistryError, TransientError):
    """The schema registry could not be reached or kept failing. The same record may be decoded later."""


class StreamError(CallFailed):
    """The stream refused. Retrying the same call at once will not help, unless this is a TransientError too."""


class StreamNotFound(StreamError):
    """There is no such stream in this account and region."""


class StreamExists(StreamError, FinalError):
    """A stream of this name exists already."""


class ShardNotFound(StreamError, FinalError):
    """The stream does not have this shard (any more)."""


class CheckpointNotInStream(StreamError, FinalError):
    """Kinesis does not accept the sequence number for this shard: the stream was recreated, or the row belongs to
    another one.
    """


class StreamKeyUnavailable(StreamError):
    """The stream is encrypted with a KMS key that is disabled, pending deletion, or denied to this role."""


class StreamAccessDenied(StreamError):
    """This role lacks a permission on the stream."""


class StreamNotAdopted(StreamError, FinalError):
    """The application's leases belong to another stream, such as this one before it was deleted and created again, or
    seem to. Nothing has been written. Says what was found, and how to continue with these leases on this stream all the
    same.
    """


class StreamRecreated(StreamError, FinalError):
    """A stream of this name exists, but it is not the one that the query's checkpoint refers to."""


class DataGap(StreamError, FinalError):
    """Records that a Spark query has not read are past retention. With `failOnDataLoss=false` it warns instead, and
    goes on.
    """


class StreamUnavailable(StreamError, TransientError):
    """Kinesis could not be reached or kept failing. Nothing is known to be wrong with the stream; the next window tries
    again.
    """


class StreamUnreachable(StreamUnavailable):
    """There was no reply at all: no network, a wrong endpoint, or a service that is down."""


class RecordRefused(StreamError, FinalError):
    """Kinesis would never accept the record. Says what is wrong with it, and what is allowed."""


class RecordTimedOut(StreamUnavailable):
    """A producer gave up a record because Kinesis refused it, or did not answer, for as long as the producer's
    `patience`. If an answer was lost, the record may be in the stream all the same.
    """


class RecordsNotPut(StreamError, FinalError):
    """A producer gave up records. Says how many, and why it gave up the first one; each record's future has its own
    reason.
    """


class LeaseTableError(CallFailed):
    """The lease table refused. Retrying the same call at once will not help, unless this is a TransientError too."""


class CheckRefused(SubletError):
    """AWS did not answer a call of an operator's command: the service fails, or a permission is missing, which the text
    names.
    """


class SnapshotUnreadable(SubletError):
    """A snapshot of positions is damaged, or is something else. Says what is wrong."""


class SeekRefused(SubletError):
    """Positions were not moved as ordered. Says which lease prevents it, and what to do."""


class RemovalRefused(SubletError):
    """The leases of a stream are not removed: a program reads it, or may read it."""


class ControlUnreadable(SubletError):
    """The item with an operator's orders for the leases is damaged, or was written by a later version. Says what is
    wrong.
    """


class ControlRefused(SubletError):
    """Leases were not paused, resumed or released as ordered. Says which lease prevents it, and what to do."""


class LeaseTableNotFound(LeaseTableError, FinalError):
    """There is no such table in this account and region."""


class LeaseTableKeyUnexpected(LeaseTableError, FinalError):
    """The table exists, but its key is not KCL's `leaseKey` (string): it is some other table."""


class LeaseTableAccessDenied(LeaseTableError):
    """This role lacks a permission on the table."""


class LeaseHeldElsewhere(LeaseTableError):
    """A batch of a Spark query has to be repeated, and another owner holds a shard's lease without getting past the
    batch; or a run over the available records would end without having read any, since others hold all leases.
    """


class LeaseKeeperGone(LeaseTableError):
    """The thread that keeps a Spark query's leases has ended before the query."""


class LeaseTableUnavailable(LeaseTableError, TransientError):
    """DynamoDB could not be reached or kept failing. A write may or may not have happened; the next one finds out."""
