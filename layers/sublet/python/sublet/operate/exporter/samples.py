"""What an application's status is in Prometheus: by the names that a process shows of itself, where both know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.shard_status import ShardStatus
from sublet.decisions.status.status_rules import Status
from sublet.metric_names import OF_EXPORTER, Metric
from sublet.runtimes.scraped_metrics import Sample, labels_of

CRASHES = 3
"""From so many on, a lease counts as crashing (`Metric.CRASHING_LEASES`)."""

STANDING = (Status.STALLED, Status.STOPPED, Status.FAILING)
"""The statuses of shards that stand still although records wait."""

NOT_ASKED = (Status.WAITING, Status.PAUSED)
"""The statuses of shards whose lag says nothing: their parents', or an operator, holds them up."""

KILOBYTE = 1_000


def application_samples(found: FleetStatus, application: str, stream: str | None) -> Iterator[Sample]:
    """`stream`: of an application that reads one alone. What is not known has no sample."""
    of_application = labels_of(application, stream, None)
    open_shards = [shard for shard in found.shards if not shard.is_ended]
    counts = {
        Metric.TOTAL_LEASES: len(open_shards),
        Metric.UNCLAIMED_LEASES: sum(shard.consumer is None for shard in open_shards),
        Metric.PAUSED_LEASES: sum(shard.status is Status.PAUSED for shard in open_shards),
        Metric.MALFORMED_ROWS: len(found.malformed),
        Metric.CRASHING_LEASES: sum(shard.crashes >= CRASHES for shard in open_shards),
    }
    for metric, count in counts.items():
        yield _defined(metric, of_application, count)
    yield _own("workers", of_application, len(found.workers))
    unknown = sum(shard.lag is None and shard.status not in NOT_ASKED for shard in open_shards)
    yield _own("unknown", of_application, unknown)
    if found.lag is not None and (found.lag or not unknown):  # 0 would say that no record waits
        yield _own("application_lag", of_application, found.lag.total_seconds())
    if found.retention_left is not None:
        yield _own("retention_left", of_application, found.retention_left.total_seconds())
    for shard in open_shards:
        yield from _of_shard(shard, found, labels_of(application, stream, shard.shard_id))


def _of_shard(shard: ShardStatus, found: FleetStatus, labels: Mapping[str, str]) -> Iterator[Sample]:
    yield _own("status", {**labels, "status": shard.status.value}, 1)
    if shard.lag is not None:
        yield _defined(Metric.MILLIS_BEHIND_LATEST, labels, shard.lag / timedelta(milliseconds=1))
    stands = shard.status in STANDING and shard.since is not None
    age = found.at - shard.since if stands and shard.since is not None else timedelta(0)
    yield _defined(Metric.CHECKPOINT_AGE, labels, age / timedelta(milliseconds=1))
    yield _defined(Metric.HANDLER_ATTEMPTS, labels, shard.attempts)
    if shard.kbps is not None:
        yield _own("read_bytes", labels, shard.kbps * KILOBYTE)
    if shard.records_per_second is not None:
        yield _own("read_records", labels, shard.records_per_second)
    yield _own("lost", labels, 0 if shard.lost is None else shard.lost.total_seconds())


def _defined(metric: Metric, labels: Mapping[str, str], value: float) -> Sample:
    assert metric.elsewhere is not None
    return Sample(metric.elsewhere, metric.meaning, labels, metric.elsewhere.value(value, metric.unit))


def _own(name: str, labels: Mapping[str, str], value: float) -> Sample:
    return Sample(*OF_EXPORTER[name], labels, value)
