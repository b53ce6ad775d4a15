"""Asking about shards that nobody reads: whether records wait there. The tick's last step, and nothing else waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from sublet.decisions.unread_shards import (
    Probed,
    StandsStill,
    Unread,
    probe_position,
    remembered,
    stand_still,
)
from sublet.engine.lease_metrics import MILLISECOND, STANDS_STILL_AFTER
from sublet.errors import LeaseTableError, ShardNotFound, StreamError, TransientError
from sublet.metric_names import Metric
from sublet.ports import PollRefusal, Ports
from sublet.protocol.lease import Lease

PROBING_LASTS = timedelta(seconds=10)
"""At most, plus one shard's two calls: a service that answers slowly must not hold up ticks."""


def probe_unread(leases: Sequence[Lease], unread: Mapping[str, Unread], ports: Ports) -> None:
    """Put the lag of those with records, and how long the worst has stood still; remember it for the next tick."""
    began, probed, unanswered = ports.clock.steady(), list[Probed](), list[Lease]()
    is_refused = False
    for lease in leases:
        if is_refused or ports.clock.steady() - began >= PROBING_LASTS:
            unanswered.append(lease)
            continue
        try:
            answer = _probe(lease, ports)
        except StreamError as refused:
            answer, is_refused = None, not isinstance(refused, TransientError | ShardNotFound)
            _report_refusal(lease, refused, ports)
        if answer is None:
            unanswered.append(lease)
        else:
            probed.append(answer)
    standing = stand_still(probed, unread, ports.clock.now())
    _report(standing, ports)
    _remember(remembered(standing, unanswered, unread, ports.clock.now()), unread, ports)


def _probe(lease: Lease, ports: Ports) -> Probed | None:
    """None: the shard's read limit is used up, by whoever reads it; the next tick asks again."""
    position = probe_position(lease)
    if position is None:
        return None
    page = ports.stream.reader(lease.shard_id, position).read(1)
    if isinstance(page, PollRefusal):
        return None
    behind = page.millis_behind_latest * MILLISECOND
    if page.records:
        age = ports.clock.now() - page.records[0].approximate_arrival_timestamp
        return Probed(lease, max(age, behind, timedelta(0)))
    return Probed(lease, behind or None)


def _report_refusal(lease: Lease, refused: StreamError, ports: Ports) -> None:
    """A shard that is gone is the cleanup's to find; what passes by itself is the next tick's."""
    if isinstance(refused, TransientError | ShardNotFound):
        return
    ports.metrics.put(Metric.READS_REFUSED, 1, shard_id=lease.shard_id)
    ports.log.error(
        "could not look into a shard that nobody reads",
        shard_id=lease.shard_id,
        error=type(refused).__name__,
        problem=str(refused),
    )


def _report(standing: Sequence[StandsStill], ports: Ports) -> None:
    ports.metrics.put(Metric.UNREAD_AGE, 0)  # the alarm goes by what is there: a tick without trouble says so
    for one in standing:
        shard_id, is_trouble = one.lease.shard_id, one.age >= STANDS_STILL_AFTER
        ports.metrics.put(Metric.MILLIS_BEHIND_LATEST, one.waiting // MILLISECOND, shard_id=shard_id)
        ports.metrics.put(
            Metric.UNREAD_AGE, one.age // MILLISECOND, shard_id=shard_id if is_trouble else None
        )
        if is_trouble:
            ports.log.warning(
                "a shard has records, and nobody reads it",
                shard_id=shard_id,
                seconds=int(one.age.total_seconds()),
                checkpoint=str(one.lease.checkpoint),
                crashes=one.lease.crashes,
            )


def _remember(now_unread: Mapping[str, Unread], unread: Mapping[str, Unread], ports: Ports) -> None:
    """An idle fleet writes nothing. That it could not be written is no reason for a tick to have failed."""
    if now_unread == unread:
        return
    try:
        ports.sightings.keep_unread(now_unread)
    except LeaseTableError as problem:
        ports.log.warning("could not remember which shards nobody reads", problem=str(problem))
