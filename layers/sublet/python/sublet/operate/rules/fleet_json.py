"""A FleetStatus as JSON: for `--json`, scripts and the console. Times are ISO 8601, durations seconds, rates KB a
second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.shard_status import WORST_FIRST, ShardStatus
from sublet.decisions.status.work_distribution import GroupLoad, WorkDistribution, WorkerLoad
from sublet.protocol.control import Pause
from sublet.protocol.handler_failure import HandlerFailure

Json = Mapping[str, object]


def fleet_json(status: FleetStatus, shards: Iterable[ShardStatus] | None = None) -> Json:
    """`shards`: the shards to show, in this order; by default all. Totals always include all shards."""
    counts = statuses_json(status)
    return {
        "at": _moment(status.at),
        "statuses": counts,
        "words": counts,  # its name in 0.2
        "lag": _seconds(status.lag),
        "lag_is_at_least": status.lag_is_at_least,
        "kbps": status.kbps,
        "oldest_unhandled": _moment(status.oldest_unhandled),
        "retention": _seconds(status.retention),
        "retention_left": _seconds(status.retention_left),
        "shards": [shard_json(shard) for shard in (status.shards if shards is None else shards)],
        **distribution_json(status.distribution),
        "multi_stream": status.multi_stream,
        "of_gone_streams": status.of_gone,
        "malformed": [{"row": row.lease_key, "problem": row.problem} for row in status.malformed],
    }


def statuses_json(status: FleetStatus) -> Mapping[str, int]:
    """Returns how many shards have each status, worst first."""
    return {each.value: status.statuses[each] for each in WORST_FIRST if each in status.statuses}


def shard_json(shard: ShardStatus) -> Json:
    """Hash keys are written as text: a JSON reader that keeps numbers as floats would round their 128 bits."""
    keys = shard.hash_key_range
    return {
        "shard": shard.shard_id,
        "stream": shard.stream,
        "status": shard.status.value,
        "word": shard.status.value,  # its name in 0.2
        "because": shard.because.value,
        "since": _moment(shard.since),
        "lag": _seconds(shard.lag),
        "lag_is_at_least": shard.lag_is_at_least,
        "trend": shard.trend,
        "caught_up_in": _seconds(shard.caught_up_in),
        "lost": _seconds(shard.lost),
        "pause": None if shard.pause is None else _pause_json(shard.pause),
        "state": shard.state.value,
        "owner": shard.owner,
        "owner_is_gone": shard.is_owner_gone,
        "group": shard.group,
        "idle": _seconds(shard.idle),
        "moved_at": _moment(shard.moved_at),
        "kbps": shard.kbps,
        "records_per_second": shard.records_per_second,
        "checkpoint": str(shard.checkpoint),
        "start_at": _moment(shard.start_at),
        "handled_to": _moment(shard.handled_to),
        "caught_up_at": _moment(shard.caught_up_at),
        "crashes": shard.crashes,
        "attempts": shard.attempts,
        "failing": None if shard.failing is None else _failing_json(shard.failing),
        "hash_keys": None if keys is None else [str(keys.starting), str(keys.ending)],
        "parents": sorted(shard.parents),
        "children": sorted(shard.children),
        "waits_for": sorted(shard.waits_for),
        "history": [{"at": _moment(seen.at), "lag": _seconds(seen.behind)} for seen in shard.history],
    }


def _failing_json(failing: HandlerFailure) -> Json:
    return {"error": failing.error, "attempt": failing.attempt, "since": _moment(failing.since)}


def _pause_json(pause: Pause) -> Json:
    return {
        "order": pause.order.value,
        "by": pause.by,
        "since": _moment(pause.since),
        "until": _moment(pause.until),
    }


def distribution_json(of: WorkDistribution) -> Json:
    return {
        "groups": [_group_json(group) for group in of.groups],
        "workers": [_worker_json(worker) for worker in of.workers],
        "target": of.target,
        "target_kbps": of.target_kbps,
        "unowned": of.unowned,
        "expired": of.expired,
        "moved": of.moved,
    }


def _group_json(group: GroupLoad) -> Json:
    return {
        "group": group.group,
        "workers": group.workers,
        "leases": group.leases,
        "share": group.share,
        "kbps": group.kbps,
        "kbps_share": group.kbps_share,
    }


def _worker_json(worker: WorkerLoad) -> Json:
    return {
        "worker": worker.worker_id,
        "group": worker.group,
        "leases": worker.leases,
        "kbps": worker.kbps,
        "idle": _seconds(worker.idle),
        "took_at": _moment(worker.took_at),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
