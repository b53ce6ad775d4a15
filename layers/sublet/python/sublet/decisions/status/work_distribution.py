"""The leases and throughput of each group of workers and of each worker, beside the fair share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.manager.group_balance import group_of
from sublet.decisions.manager.liveness import LATELY
from sublet.decisions.manager.stealing import fair_share
from sublet.decisions.status.shard_status import ShardState, ShardStatus
from sublet.settings import Settings


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A live worker.

    kbps     KB a second of its measured leases; None if none is measured
    idle     how long ago it last wrote to any lease; None if not known
    took_at  when it last took a lease from another worker; None if that was not recent
    """

    worker_id: str
    group: str
    leases: int
    kbps: float | None
    idle: timedelta | None = None
    took_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """`share` and `kbps_share`: its workers' part of the held leases, and of their KB a second, if all workers had the
    same.
    """

    group: str
    workers: int
    leases: int
    share: float
    kbps: float | None
    kbps_share: float | None = None


@dataclass(frozen=True, slots=True)
class WorkDistribution:
    """How the unfinished leases are distributed.

    groups, workers  those that are alive, by name
    target           KCL's fair share: the most that a worker should hold
    unowned          leases without an owner, or not taken yet
    expired          leases whose owners are gone; None if it is not known of any owner when it last wrote
    moved            how many have changed owners within the last hour, as far as lease managers have seen it
    target_kbps      KB a second of each worker if all had the same; None if nothing is measured
    """

    groups: tuple[GroupLoad, ...]
    workers: tuple[WorkerLoad, ...]
    target: int
    unowned: int
    expired: int | None
    moved: int
    target_kbps: float | None = None


def work_distribution(shards: Iterable[ShardStatus], now: datetime, settings: Settings) -> WorkDistribution:
    """Follows a lease manager's settings: `max_leases_for_worker`, and how worker ids form groups."""
    in_play = [shard for shard in shards if shard.state is not ShardState.ENDED]
    workers = tuple(
        _worker_load(worker_id, theirs, settings) for worker_id, theirs in sorted(_by_owner(in_play).items())
    )
    kbps = _kbps(workers)
    states = Counter(shard.state for shard in in_play)
    return WorkDistribution(
        _groups(workers, kbps),
        workers,
        fair_share(len(in_play), len(workers), settings) if workers else 0,
        states[ShardState.UNOWNED],
        _expired(in_play),
        sum(shard.moved_at is not None and now - shard.moved_at < LATELY for shard in in_play),
        None if kbps is None else kbps / len(workers),
    )


def _expired(shards: Iterable[ShardStatus]) -> int | None:
    held = [shard for shard in shards if shard.state is not ShardState.UNOWNED]
    if held and all(shard.idle is None for shard in held):
        return None
    return sum(shard.is_owner_gone for shard in held)


def _worker_load(worker_id: str, shards: list[ShardStatus], settings: Settings) -> WorkerLoad:
    idle = min((shard.idle for shard in shards if shard.idle is not None), default=None)
    took_at = max((shard.moved_at for shard in shards if shard.moved_at is not None), default=None)
    return WorkerLoad(worker_id, group_of(worker_id, settings), len(shards), _kbps(shards), idle, took_at)


def _by_owner(shards: Iterable[ShardStatus]) -> Mapping[str, list[ShardStatus]]:
    """Returns the shards by live owner."""
    owned: dict[str, list[ShardStatus]] = {}
    for shard in shards:
        if shard.consumer is not None:
            owned.setdefault(shard.consumer, []).append(shard)
    return owned


def _kbps(measured: Iterable[ShardStatus | WorkerLoad]) -> float | None:
    known = [each.kbps for each in measured if each.kbps is not None]
    return sum(known) if known else None


def _groups(workers: tuple[WorkerLoad, ...], kbps: float | None) -> tuple[GroupLoad, ...]:
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
            None if kbps is None else kbps * len(each) / len(workers),
        )
        for group, each in sorted(members.items())
    )
