"""The leases and throughput of each group of workers and of each worker, beside the fair share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sublet.decisions.fleet_status import FleetStatus, ShardState, ShardStatus
from sublet.decisions.group_balance import group_of
from sublet.decisions.liveness import LATELY
from sublet.decisions.stealing import fair_share
from sublet.settings import Settings


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """`kbps`: KB a second of the measured leases; None if none is measured."""

    worker_id: str
    group: str
    leases: int
    kbps: float | None


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """`share`: its workers' part of the held leases if all workers had the same."""

    group: str
    workers: int
    leases: int
    share: float
    kbps: float | None


@dataclass(frozen=True, slots=True)
class WorkDistribution:
    """Of the unfinished leases.

    groups, workers  live ones, by name
    target           KCL's fair share: the most that a worker should hold
    unowned          without an owner, or not taken yet
    expired          of owners that are gone
    moved            how many have changed owners within the last hour, as far as lease managers have seen it
    """

    groups: tuple[GroupLoad, ...]
    workers: tuple[WorkerLoad, ...]
    target: int
    unowned: int
    expired: int
    moved: int


def work_distribution(status: FleetStatus, settings: Settings) -> WorkDistribution:
    """By a lease manager's settings: `max_leases_for_worker`, and how worker ids form groups."""
    in_play = [shard for shard in status.shards if shard.state is not ShardState.ENDED]
    workers = tuple(
        WorkerLoad(worker_id, group_of(worker_id, settings), len(shards), _kbps(shards))
        for worker_id, shards in sorted(_by_owner(in_play).items())
    )
    return WorkDistribution(
        _groups(workers),
        workers,
        fair_share(len(in_play), len(workers), settings) if workers else 0,
        status.states.get(ShardState.UNOWNED, 0),
        status.states.get(ShardState.EXPIRED, 0),
        sum(shard.moved_at is not None and status.at - shard.moved_at < LATELY for shard in in_play),
    )


def _by_owner(shards: Iterable[ShardStatus]) -> Mapping[str, list[ShardStatus]]:
    """By live owner."""
    owned: dict[str, list[ShardStatus]] = {}
    for shard in shards:
        if shard.consumer is not None:
            owned.setdefault(shard.consumer, []).append(shard)
    return owned


def _kbps(measured: Iterable[ShardStatus | WorkerLoad]) -> float | None:
    known = [each.kbps for each in measured if each.kbps is not None]
    return sum(known) if known else None


def _groups(workers: tuple[WorkerLoad, ...]) -> tuple[GroupLoad, ...]:
    leases = sum(worker.leases for worker in workers)
    members: dict[str, list[WorkerLoad]] = {}
    for worker in workers:
        members.setdefault(worker.group, []).append(worker)
    return tuple(
        GroupLoad(
            group,
            len(each),
            sum(worker.leases for worker in each),
            leases * len(each) / len(workers),
            _kbps(each),
        )
        for group, each in sorted(members.items())
    )
