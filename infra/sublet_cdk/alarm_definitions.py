"""Every alarm as a value: what it watches, when it is on, and what to do then. No CDK is needed to read them.

The constructs deploy these, docs/operations.md lists them, and `tests/alarms` has simulated fleets fire them.

Missing data is deliberate for each. A figure that says "trouble" is put with every tick and window, zero too, and then missing
means that nothing runs, of which there are alarms of their own. Those are on sums, with what is missing filled with zero:
CloudWatch goes by older periods before it takes a missing one for bad, and would come twice as late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sublet.metric_names import Metric
from sublet_cdk.alarm_pace import AlarmThresholds, Pace


class Source(StrEnum):
    """Whose metric it is: the application's own, or AWS's of what was deployed for it."""

    APPLICATION = "application"
    MANAGER = "lease manager"
    WORKER = "lease worker"
    STATE_MACHINE = "state machine"
    DEAD_LETTERS = "dead-letter queue"


class Missing(StrEnum):
    """CloudWatch's TreatMissingData, as far as we use it."""

    NOT_BREACHING = "notBreaching"
    BREACHING = "breaching"


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric's statistic over a period."""

    metric: str
    statistic: str
    source: Source = Source.APPLICATION


@dataclass(frozen=True, slots=True)
class Alarm:
    """On when in `points` of the last `periods` the value is beyond `threshold`.

    figures      by the name that `expression` knows each by; of a single one the expression only fills what is missing
    minutes      one period
    below        at or below the threshold, instead of above it
    when, then   what it says and what to do: of both the description is made
    """

    name: str
    figures: Mapping[str, Figure]
    minutes: int
    periods: int
    when: str
    then: str
    points: int
    threshold: float = 0
    below: bool = False
    missing: Missing = Missing.NOT_BREACHING
    expression: str | None = None

    @property
    def description(self) -> str:
        """What a person is sent."""
        return f"{self.when[0].upper()}{self.when[1:]}. {self.then}"

    @property
    def needs_math(self) -> bool:
        return len(self.figures) > 1


def alarms(pace: Pace, at: AlarmThresholds, *, on_lambda: bool) -> Sequence[Alarm]:
    """All of an application; those of the functions, the state machine and the queue only where it is `on_lambda`."""
    return (
        *_standing_still(pace, at),
        *_given_up(pace, at),
        *_refused(pace),
        *_under_provisioned(pace, at),
        *_data_loss(pace, at),
        *_silence(pace, at, on_lambda=on_lambda),
        *(_broken(pace, at) if on_lambda else ()),
    )


def _standing_still(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        _at_once(
            pace,
            "ShardUnread",
            Figure(Metric.UNREAD_AGE, "Maximum"),
            "a shard has records, and nobody reads it or gets any further",
            "The other shards may be well. The lease manager's log names it: 'a shard has records, and nobody reads it'. Other "
            "alarms that are on say why; if none is, look for its lease key in the lease worker's log.",
            pace.unread_millis(at.unread_minutes),
        ),
        _at_once(
            pace,
            "OwnerStalled",
            Figure(Metric.OWNER_STALLED_AGE, "Maximum"),
            "an owner heartbeats a lease, records wait, and the checkpoint stands still",
            "Whoever it is: a KCL worker, a process whose log nobody reads, a worker of this deployment. The lease manager's log "
            "names it: 'its owner heartbeats, and its checkpoint stands still'. Its handler hangs or fails: end it, and another "
            "takes the lease. One that checkpoints less often on purpose: raise owner_stall_minutes.",
            pace.owner_stall_millis(at.owner_stall_minutes),
        ),
        _told_by_workers(
            pace,
            "ShardStalled",
            Figure(Metric.CHECKPOINT_AGE, "Maximum"),
            "a worker holds a shard with records, and nothing of it gets done",
            "The other shards may be well. The lease worker's log names it: 'a shard with records to come stands still'. Its "
            "handler is slow or hangs, it waits for a slot that another shard's call has, or its polls are throttled.",
            pace.stall_millis(at.stall_minutes),
        ),
        _told_by_workers(
            pace,
            "HandlerHanging",
            Figure(Metric.HANDLER_CALL_AGE, "Maximum"),
            "a call of the handler does not return",
            "Its shard waits, and so do those that share its slot. Is it waiting for something without a time-out? "
            "handler_call_age by shard_id, and the lease worker's log, name the shard. A handler that is meant to take that "
            "long: raise handler_call_minutes, or make batch_size smaller.",
            pace.stall_millis(at.handler_call_minutes),
        ),
        _told_by_workers(
            pace,
            "BatchesUnfinished",
            Figure(Metric.OLDEST_UNFINISHED_AGE, "Maximum"),
            "with manual checkpointing, a batch was handed over long ago and is not checkpointed",
            "Its shard's position stands still, though reading may go on, and all since would come again. "
            "oldest_unfinished_age by shard_id tells which. Where the handler keeps batches for longer on purpose, raise "
            "unfinished_minutes.",
            pace.stall_millis(at.unfinished_minutes),
        ),
        _lasting(
            pace,
            "HandlerFailing",
            Figure(Metric.HANDLER_FAILURES, "Sum"),
            "the handler goes on raising",
            "Nothing is skipped: its shards wait at the failing batch, and lag grows. The lease worker's log has the shard, the "
            "traceback and the sequence numbers; handler_failures by shard_id tells which.",
            threshold=at.handler_failures,
            minutes=at.handler_failing_minutes,
        ),
    )


def _given_up(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        _at_once(
            pace,
            "HandlerStuck",
            Figure(Metric.HANDLER_ATTEMPTS, "Maximum"),
            "the same records have failed again and again; their shard waits for them",
            "The lease worker's log has the shard and their first and last position. Mend the handler, or let them be set aside: "
            "maximum_retry_attempts or maximum_record_age, with on_failure.",
            at.handler_attempts,
        ),
        _at_once(
            pace,
            "RecordsSetAside",
            Figure(Metric.RECORDS_SET_ASIDE, "Sum"),
            "records were given up, and the failure destination has them",
            "The lease worker's log has their positions, and the destination the exception's type. When the handler can do them, "
            "`sublet redrive` hands them to it again.",
        ),
        _at_once(
            pace,
            "DestinationRefuses",
            Figure(Metric.DESTINATION_REFUSALS, "Sum"),
            "the failure destination did not take records that are to be set aside",
            "Nothing is lost: their shard waits until it does. The lease worker's log has the cause: a missing permission, "
            "its KMS key (on_failure_key), or a destination that is gone.",
        ),
    )


def _refused(pace: Pace) -> Sequence[Alarm]:
    return (
        _lasting(
            pace,
            "ReadsRefused",
            Figure(Metric.READS_REFUSED, "Sum"),
            "Kinesis refuses to be read, and asking again does not help",
            "The log has the reason by shard: the stream's KMS key is disabled or not the role's to use (stream_key; "
            "stream_key_arn for `sublet deploy`), a "
            "permission is missing, or the stream or the checkpoint is not there. Records stay until retention ends.",
        ),
        _lasting(
            pace,
            "LeasesFailing",
            Figure(Metric.LEASES_FAILED, "Sum"),
            "leases are given up again and again, because Kinesis or DynamoDB refuses or of an unplanned fault",
            "They go on from their checkpoints once it is mended. The lease worker's log says which and why: 'service failed', "
            "'lease table unavailable' (its KMS key, perhaps: lease_table_key), or a traceback.",
        ),
    )


def _under_provisioned(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        _lasting(
            pace,
            "PollsThrottled",
            Figure(Metric.THROTTLED_POLLS, "Maximum"),
            "polls of a shard are refused, time after time: its read limit is used up",
            "Five calls and 2 MB a second are shared by all who poll the shard. Which other consumers are there? Have them poll "
            "more seldom (idle_poll_interval here), give one of them enhanced fan-out, or split the shard. throttled_polls by "
            "shard_id tells which.",
            threshold=at.throttled_polls,
        ),
        _lasting(
            pace,
            "Lagging",
            Figure(Metric.MILLIS_BEHIND_LATEST, "Minimum"),
            "under-provisioned: even the least lagging shard is behind its tip",
            "Normal for a while after a first deployment from TRIM_HORIZON or a reshard. Otherwise make the handler faster, "
            "lower leases_per_worker, give the worker more memory (it brings CPU), or split shards.",
            threshold=at.lag_millis,
            minutes=at.lag_minutes,
        ),
        _lasting(
            pace,
            "UnclaimedLeases",
            Figure(Metric.UNCLAIMED_LEASES, "Minimum"),
            "under-provisioned: some leases have nobody to read them, and no worker is sent for them",
            "A shard's children wait like this for its last record. Otherwise raise what caps the fleet: "
            "max_leases_for_worker, leases_to_acquire, or, beside a KCL fleet, worker_count.",
            minutes=at.unclaimed_minutes,
        ),
        Alarm(
            "HotShard",
            {"busiest": Figure(Metric.BYTES, "Maximum"), "average": Figure(Metric.BYTES, "Average")},
            minutes=pace.span,
            periods=pace.spans(at.hot_shard_minutes),
            points=pace.spans(at.hot_shard_minutes),
            when="one shard brings far more bytes than the average",
            then="Find it on the dashboard, spread the partition keys, or split it. While it keeps up nothing is wrong, and when "
            "it grows further it will lag alone.",
            threshold=at.hot_shard_ratio,
            expression=f"IF(busiest > {at.hot_shard_bytes}, busiest / average, 0)",
        ),
    )


def _data_loss(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        Alarm(
            "LeasesMissing",
            {
                "shards": Figure(Metric.TOTAL_SHARDS, "Minimum"),
                "leases": Figure(Metric.TOTAL_LEASES, "Maximum"),
            },
            minutes=pace.span,
            periods=pace.spans(at.data_loss_minutes),
            points=pace.spans(at.data_loss_minutes),
            when="data loss ahead: there are more shards than leases, so some shard is read by nobody",
            then="The lease manager's log says which leases it did not create, and why.",
            expression="shards - leases",
        ),
        _at_once(
            pace,
            "DataGap",
            Figure(Metric.DATA_GAP, "Sum"),
            "data was lost: a checkpoint was older than the stream's retention",
            "Reading went on from the oldest record there is. The log has the shard and the gap. Find out why it was not read in "
            "time; lengthen the retention.",
        ),
        _at_once(
            pace,
            "HandlerCrashing",
            Figure(Metric.CRASHING_LEASES, "Maximum"),
            "every process that handles a shard's next records dies, or its call hangs",
            "Out of memory, os._exit, a fault in native code, a wait without a time-out. The other shards go on; this one is "
            "tried alone, ever more seldom. The lease manager's log has the lease key and the checkpoint that the records come "
            "after.",
        ),
        _at_once(
            pace,
            "MalformedRows",
            Figure(Metric.MALFORMED_ROWS, "Maximum"),
            "the lease table has a row that KCL could not have written; its shard alone is not read",
            "The lease manager's log has the lease key and the fault. Repair the row, from a point in time of the table if need "
            "be; one that is deleted is created anew from the start position.",
        ),
    )


def _silence(pace: Pace, at: AlarmThresholds, *, on_lambda: bool) -> Sequence[Alarm]:
    ticks = (
        Figure("Invocations", "Sum", Source.MANAGER)
        if on_lambda
        else Figure(Metric.TOTAL_LEASES, "SampleCount")
    )
    return (
        _silent(
            pace,
            at,
            "WorkersGone",
            Figure(Metric.WORKER_LEASES, "Sum"),
            "data loss ahead: no lease worker holds a lease",
            "Records stay in the stream until its retention ends, so act before. Look at the lease manager's log, the state "
            "machine's executions and the lease worker's errors, or at the process.",
        ),
        _silent(
            pace,
            at,
            "TicksMissing",
            ticks,
            "the lease manager does not tick",
            "No lease is created, handed out or taken over. On Lambda: is the rule enabled? Undelivered ticks are in the "
            "dead-letter queue. A process: does it run, and can it reach its tables and the stream? Its log tells.",
        ),
    )


def _broken(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        _lasting(
            pace,
            "WorkerCrashing",
            Figure("Errors", "Sum", Source.WORKER),
            "the lease worker crashes, times out or runs out of memory, again and again",
            "Its items run again, three times in a row at most. See its log (REPORT lines have the memory used), and lower "
            "leases_per_worker or max_bytes_in_flight, or give it more memory.",
        ),
        _lasting(
            pace,
            "WorkerThrottled",
            Figure("Throttles", "Sum", Source.WORKER),
            "under-provisioned: Lambda refuses to start lease workers",
            "Their leases wait for the next tick. Raise worker_reserved_concurrency or the account's limit, or raise "
            "leases_per_worker.",
            minutes=at.unclaimed_minutes,
        ),
        _lasting(
            pace,
            "ManagerFailing",
            Figure("Errors", "Sum", Source.MANAGER),
            "the lease manager fails tick after tick: no new lease is created or handed out",
            "Its log names the cause: the lease table, the stream, a KMS key (lease_table_key, stream_key), or a permission.",
        ),
        _at_once(
            pace,
            "DeadLetters",
            Figure("ApproximateNumberOfMessagesVisible", "Maximum", Source.DEAD_LETTERS),
            "a tick or prompt could not be delivered to the lease manager or failed in it, three times over",
            "Read the message for the cause, then purge the queue: later ticks have made up for it.",
        ),
        _at_once(
            pace,
            "ExecutionsFailing",
            Figure("ExecutionsFailed", "Sum", Source.STATE_MACHINE),
            "an execution has failed, although every error of an item is caught inside",
            "The leases it held expire after failover_time and the next tick hands them out again. See the execution's "
            "history: a changed definition or a lost permission is likely.",
        ),
    )


def _at_once(pace: Pace, name: str, figure: Figure, when: str, then: str, threshold: float = 0) -> Alarm:
    """What one figure proves. It stays on for a span, in which the next tick says whether it is over."""
    return Alarm(name, {"figure": figure}, pace.span, 1, when, then, points=1, threshold=threshold)


def _told_by_workers(pace: Pace, name: str, figure: Figure, when: str, then: str, threshold: float) -> Alarm:
    """The same of what a worker knows: the next one comes a tick later, and has to see for itself how long it takes."""
    return Alarm(name, {"figure": figure}, pace.span, 3, when, then, points=1, threshold=threshold)


def _lasting(
    pace: Pace, name: str, figure: Figure, when: str, then: str, *, threshold: float = 0, minutes: int = 0
) -> Alarm:
    """What may happen once, and should not go on."""
    spans = pace.spans(minutes)
    return Alarm(name, {"figure": figure}, pace.span, spans, when, then, points=spans, threshold=threshold)


def _silent(pace: Pace, at: AlarmThresholds, name: str, figure: Figure, when: str, then: str) -> Alarm:
    """What should be there in every span, and is not."""
    spans = pace.spans(at.silence_minutes)
    return Alarm(
        name, {"figure": figure}, pace.span, spans, when, then, points=spans, below=True, missing=Missing.BREACHING,
        expression="FILL(figure, 0)",
    )  # fmt: skip
