"""All alarms of an application: what each watches, when it fires, and what to do then.

The constructs deploy these, docs/alarms.md lists them, and simulated fleets in `tests/alarms` make them fire.
"""

from __future__ import annotations

from collections.abc import Sequence

from sublet.metric_names import Metric
from sublet_cdk.alarm_kinds import Alarm, Figure, Source, at_once, lasting, reported_by_workers, silent
from sublet_cdk.alarm_pace import AlarmThresholds, Pace


def alarms(pace: Pace, at: AlarmThresholds, *, on_lambda: bool) -> Sequence[Alarm]:
    """All alarms of an application; those of functions, state machine and queue only if `on_lambda`."""
    return (
        *_standing_still(pace, at),
        *_given_up(pace, at),
        *_refused(pace),
        *_under_provisioned(pace, at),
        *_data_loss(pace, at),
        *_silence(pace, at, on_lambda=on_lambda),
        *(_broken(pace, at) if on_lambda else ()),
    )


LEAN = (
    "HandlerStuck",
    "Lagging",
    "DataGap",
    "WorkerCrashing",
    "WorkerThrottled",
    "ManagerFailing",
    "DeadLetters",
    "ExecutionsFailing",
)
"""The alarms of `lean_alarms` that are those of `alarms`."""


def lean_alarms(pace: Pace, at: AlarmThresholds, *, on_lambda: bool) -> Sequence[Alarm]:
    """The alarms of `monitoring=lean`. They watch AWS' own metrics, which cost nothing, and the five of
    `sublet.metric_names.LEAN`.
    """
    ticks = _ticks_on_lambda() if on_lambda else Figure(Metric.STANDSTILL_AGE, "SampleCount")
    return (
        reported_by_workers(
            pace,
            "Standstill",
            Figure(Metric.STANDSTILL_AGE, "Maximum"),
            "records wait in a shard, and its position does not move",
            "The other shards may be fine. The lease manager's log names it: 'no worker reads a shard, although "
            "records wait', or 'checkpoint does not move' if an owner heartbeats its lease. The lease worker's log "
            "says why: its handler fails, or a call does not return. If it is paused (`sublet status`), "
            "half of the retention is used up: resume it before records are lost.",
            pace.owner_stall_millis(at.owner_stall_minutes),
            log=Source.MANAGER,
        ),
        lasting(
            pace,
            "LeasesFailing",
            Figure(Metric.LEASES_FAILED, "Sum"),
            "leases are given up again and again, or their shards cannot be read",
            "They continue from their checkpoints once it is fixed. The lease worker's log says which and why: 'a call "
            "to AWS failed', 'lease table unavailable' (a KMS key, perhaps: lease_table_key, stream_key), a "
            "destination that refuses records, polls that are refused because others use up the shard's read limit, or "
            "an error. The lease manager's names a malformed row, and a lease whose records kill every process.",
        ),
        *(alarm for alarm in alarms(pace, at, on_lambda=on_lambda) if alarm.name in LEAN),
        _ticks_missing(pace, at, ticks),
    )


def export_alarm(pace: Pace) -> Alarm:
    """With `metrics_export=otlp`."""
    return lasting(
        pace,
        "MetricsNotExported",
        Figure(Metric.METRICS_EXPORTS_FAILED, "Sum"),
        "metrics do not reach the OTLP endpoint, so the alarms that name a shard see nothing",
        "Records are handled as before, and the log has all metrics. It says why: 'metrics could not be exported'. "
        "A permission (cloudwatch:PutMetricData), a network without a way to CloudWatch (an endpoint for "
        "`monitoring`), a collector that is away, or its address in OTEL_EXPORTER_OTLP_ENDPOINT.",
    )


def _standing_still(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        at_once(
            pace,
            "ShardUnread",
            Figure(Metric.UNREAD_AGE, "Maximum"),
            "a shard has records, but no consumer reads it or makes progress",
            "The other shards may be fine. The lease manager's log names it: 'no worker reads a shard, although "
            "records wait'. Other alarms that are on say why; if there are none, look for its lease key in the lease "
            "worker's log. If it is paused (`sublet status`), half of the retention is used up: resume it before "
            "records are lost.",
            pace.unread_millis(at.unread_minutes),
            log=Source.MANAGER,
        ),
        at_once(
            pace,
            "OwnerStalled",
            Figure(Metric.OWNER_STALLED_AGE, "Maximum"),
            "an owner heartbeats a lease, records wait, and the checkpoint does not move",
            "It may be a KCL worker, another process, or a worker of this deployment. The lease manager's log "
            "names it, in lines with 'checkpoint does not move'. Its handler hangs or fails: end it, "
            "and another takes the lease. If it checkpoints less often on purpose, raise owner_stall_minutes.",
            pace.owner_stall_millis(at.owner_stall_minutes),
            log=Source.MANAGER,
        ),
        reported_by_workers(
            pace,
            "ShardStalled",
            Figure(Metric.CHECKPOINT_AGE, "Maximum"),
            "a worker holds a shard with records, but makes no progress",
            "The other shards may be fine. The lease worker's log names it: 'a shard's position does not "
            "move'. Its handler is slow or hangs, it waits for a slot that another shard's call occupies, or its "
            "polls are throttled.",
            pace.stall_millis(at.stall_minutes),
        ),
        reported_by_workers(
            pace,
            "HandlerHanging",
            Figure(Metric.HANDLER_CALL_AGE, "Maximum"),
            "a call of the handler does not return",
            "Its shard waits, and so do those that share its slot. Does it wait for something without a time-out? "
            "handler_call_age by shard_id, and the lease worker's log, name the shard. If it is meant to take that "
            "long, raise handler_call_minutes, or make batch_size smaller.",
            pace.stall_millis(at.handler_call_minutes),
        ),
        reported_by_workers(
            pace,
            "BatchesUnfinished",
            Figure(Metric.OLDEST_UNFINISHED_AGE, "Maximum"),
            "with manual checkpointing, a batch was delivered long ago and is not checkpointed",
            "Its shard's position does not move, though reading may go on; after a restart everything since then comes "
            "again. oldest_unfinished_age by shard_id tells which. If the handler keeps batches for longer on "
            "purpose, raise unfinished_minutes.",
            pace.stall_millis(at.unfinished_minutes),
        ),
        lasting(
            pace,
            "HandlerFailing",
            Figure(Metric.HANDLER_FAILURES, "Sum"),
            "the handler keeps raising",
            "Nothing is skipped: its shards wait at the failing batch, and lag grows. The lease worker's log has the "
            "shard, the traceback and the sequence numbers; handler_failures by shard_id tells which.",
            threshold=at.handler_failures,
            minutes=at.handler_failing_minutes,
        ),
    )


def _given_up(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        at_once(
            pace,
            "HandlerStuck",
            Figure(Metric.HANDLER_ATTEMPTS, "Maximum"),
            "the same records have failed again and again; their shard waits for them",
            "The lease worker's log has the shard and their first and last position. Fix the handler, or let them be "
            "set aside: maximum_retry_attempts or maximum_record_age, with on_failure.",
            at.handler_attempts,
        ),
        at_once(
            pace,
            "RecordsSetAside",
            Figure(Metric.RECORDS_SET_ASIDE, "Sum"),
            "records were given up, and the failure destination has them",
            "The lease worker's log has their positions, and the destination the exception's type. When the handler "
            "can process them, `sublet redrive` delivers them to it again.",
            at_destination=True,
        ),
        at_once(
            pace,
            "DestinationRefuses",
            Figure(Metric.DESTINATION_REFUSALS, "Sum"),
            "the failure destination refused records to be set aside",
            "Nothing is lost: their shard waits until it accepts them. The lease worker's log has the cause: a missing "
            "permission, its KMS key (on_failure_key), or a destination that no longer exists.",
            at_destination=True,
        ),
    )


def _refused(pace: Pace) -> Sequence[Alarm]:
    return (
        lasting(
            pace,
            "ReadsRefused",
            Figure(Metric.READS_REFUSED, "Sum"),
            "Kinesis refuses reads, and retries do not help",
            "The log has the reason by shard: the stream's KMS key is disabled or not the role's to use (stream_key; "
            "stream_key_arn for `sublet deploy`), a "
            "permission is missing, or the stream or the checkpoint does not exist. Records stay until retention ends.",
        ),
        lasting(
            pace,
            "LeasesFailing",
            Figure(Metric.LEASES_FAILED, "Sum"),
            "leases are given up again and again, because Kinesis or DynamoDB refuses, or because of an unexpected "
            "error",
            "They continue from their checkpoints once it is fixed. The lease worker's log says which and why: "
            "'a call to AWS failed', 'lease table unavailable' (its KMS key, perhaps: lease_table_key), or an error.",
        ),
    )


def _under_provisioned(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        lasting(
            pace,
            "PollsThrottled",
            Figure(Metric.THROTTLED_POLLS, "Maximum"),
            "polls of a shard are refused again and again: its read limit is used up",
            "All consumers that poll the shard share five calls and 2 MB a second. Let the others poll "
            "less often (idle_poll_interval here), give one of them enhanced fan-out, or split the shard. "
            "throttled_polls by shard_id tells which.",
            threshold=at.throttled_polls,
        ),
        lasting(
            pace,
            "Lagging",
            Figure(Metric.MILLIS_BEHIND_LATEST, "Minimum"),
            "under-provisioned: even the least lagging shard is behind its tip",
            "Normal for a while after a first deployment from TRIM_HORIZON or a reshard. Otherwise make the handler "
            "faster, lower leases_per_worker, give the worker more memory (it brings CPU), or split shards.",
            threshold=at.lag_millis,
            minutes=at.lag_minutes,
        ),
        lasting(
            pace,
            "UnclaimedLeases",
            Figure(Metric.UNCLAIMED_LEASES, "Minimum"),
            "under-provisioned: some leases have no owner, and no worker is started for them",
            "It is normal for a shard's children, until its last record is read. Otherwise raise the fleet's limits: "
            "max_leases_for_worker, leases_to_acquire, or, beside a KCL fleet, worker_count.",
            minutes=at.unclaimed_minutes,
            log=Source.MANAGER,
        ),
        Alarm(
            "HotShard",
            {"busiest": Figure(Metric.BYTES, "Maximum"), "average": Figure(Metric.BYTES, "Average")},
            minutes=pace.span,
            periods=pace.spans(at.hot_shard_minutes),
            points=pace.spans(at.hot_shard_minutes),
            when="one shard brings far more bytes than the average",
            then="The lease manager's log names it: 'a shard is hot', with the command that says why (`sublet hot`): "
            "a key to "
            "salt, or where to split it. The dashboard lists it under 'Hot shards'. While it keeps up nothing is "
            "wrong, but when it grows further it will fall behind alone.",
            threshold=at.hot_shard_ratio,
            expression=f"IF(busiest > {at.hot_shard_bytes}, busiest / average, 0)",
            has_link=True,
            log=Source.MANAGER,
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
            when="data loss ahead: there are more shards than leases, so some shards are not read",
            then="The lease manager's log says which leases it did not create, and why.",
            expression="shards - leases",
            log=Source.MANAGER,
        ),
        at_once(
            pace,
            "DataGap",
            Figure(Metric.DATA_GAP, "Sum"),
            "data was lost: a checkpoint was older than the stream's retention",
            "Reading continued from the oldest record. The log has the shard and the gap. Find out why it was not "
            "read in time; lengthen the retention.",
        ),
        at_once(
            pace,
            "HandlerCrashing",
            Figure(Metric.CRASHING_LEASES, "Maximum"),
            "every process that handles a shard's next records dies, or its call hangs",
            "Out of memory, os._exit, a crash in native code, a wait without a time-out. The other shards go on; this "
            "one is tried alone, less and less often. The lease manager's log has the lease key and the checkpoint "
            "before the records.",
            log=Source.MANAGER,
        ),
        at_once(
            pace,
            "MalformedRows",
            Figure(Metric.MALFORMED_ROWS, "Maximum"),
            "the lease table has a row that KCL could not have written; only its shard is not read",
            "The lease manager's log has the lease key and the fault. Repair the row, if necessary from a backup of "
            "the table; if you delete it, it is created again from the start position.",
            log=Source.MANAGER,
        ),
    )


def _silence(pace: Pace, at: AlarmThresholds, *, on_lambda: bool) -> Sequence[Alarm]:
    ticks = _ticks_on_lambda() if on_lambda else Figure(Metric.TOTAL_LEASES, "SampleCount")
    return (
        silent(
            pace,
            at,
            "WorkersGone",
            {
                "held": Figure(Metric.WORKER_LEASES, "Sum"),
                "quiet": Figure(Metric.QUIET_LEASES, "Maximum"),
            },
            "data loss ahead: no lease worker holds a lease, and no shard is known to be quiet or is paused",
            "Records stay in the stream until its retention ends, so act before then. Check the lease manager's log, "
            "the state machine's executions and the lease worker's errors, or the process.",
        ),
        _ticks_missing(pace, at, ticks),
    )


def _ticks_on_lambda() -> Figure:
    return Figure("Invocations", "Sum", Source.MANAGER)


def _ticks_missing(pace: Pace, at: AlarmThresholds, ticks: Figure) -> Alarm:
    return silent(
        pace,
        at,
        "TicksMissing",
        {"figure": ticks},
        "the lease manager does not tick",
        "No lease is created, handed out or taken over. On Lambda: is the rule enabled? Undelivered ticks are in the "
        "dead-letter queue. A process: does it run, and can it reach its tables and the stream? Its log says so.",
    )


def _broken(pace: Pace, at: AlarmThresholds) -> Sequence[Alarm]:
    return (
        lasting(
            pace,
            "WorkerCrashing",
            Figure("Errors", "Sum", Source.WORKER),
            "the lease worker crashes, times out or runs out of memory, again and again",
            "Its items run again, three times in a row at most. See its log (REPORT lines have the memory used), and "
            "lower leases_per_worker or max_bytes_in_flight, or give it more memory.",
        ),
        lasting(
            pace,
            "WorkerThrottled",
            Figure("Throttles", "Sum", Source.WORKER),
            "under-provisioned: Lambda refuses to start lease workers",
            "Their leases wait for the next tick. Raise worker_reserved_concurrency or the account's limit, or raise "
            "leases_per_worker.",
            minutes=at.unclaimed_minutes,
        ),
        lasting(
            pace,
            "ManagerFailing",
            Figure("Errors", "Sum", Source.MANAGER),
            "the lease manager fails tick after tick: no new lease is created or handed out",
            "Its log names the cause: the lease table, the stream, a KMS key (lease_table_key, stream_key), or a "
            "permission.",
            log=Source.MANAGER,
        ),
        at_once(
            pace,
            "DeadLetters",
            Figure("ApproximateNumberOfMessagesVisible", "Maximum", Source.DEAD_LETTERS),
            "a tick or prompt could not be delivered to the lease manager, or failed there three times",
            "The message has the cause; then purge the queue: later ticks have made up for it.",
            log=Source.MANAGER,
        ),
        at_once(
            pace,
            "ExecutionsFailing",
            Figure("ExecutionsFailed", "Sum", Source.STATE_MACHINE),
            "an execution has failed, although every error of an item is caught inside",
            "The leases it held expire after failover_time and the next tick hands them out again. See the execution's "
            "history; the likely cause is a changed definition or a lost permission.",
            log=Source.STATE_MACHINE,
        ),
    )
