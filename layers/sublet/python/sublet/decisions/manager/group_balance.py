"""Balances leases between groups of workers: the clusters, zones or deployments that share a stream.

KCL's fair share is rounded up for each worker, and a worker that is one short of it may not steal from one that has it.
Take 500 leases on a cluster of 100 workers, and add a second such cluster. They stay at 300 and 200 for ever: no two
workers are more than one apart, yet one cluster does one and a half times the other's work.

A group's share is proportional to its number of workers. A lease moves from a group above its share to one below it, if
they are more than one lease apart. It moves only from a worker that has KCL's fair share to one that has less. Then the
victim does not become two short of the share and the thief does not exceed it, so a KCL 2.x worker finds nothing to
take back. Each move lessens the spread, so the moves end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple

from sublet.settings import Settings

Rank = Callable[[str], bytes]
"""A worker's place among workers with equal counts."""


class GroupMove(NamedTuple):
    victim: str
    thief: str


class _MovableLease(NamedTuple):
    """One lease that a worker may give or take. `held`: how many the worker has just before, by the plan."""

    held: int
    rank: bytes
    worker_id: str


def group_of(worker_id: str, settings: Settings) -> str:
    """The worker id up to the first `group_separator`, or all of it. The worker ids of a Lambda deployment are one
    group.
    """
    if worker_id.startswith(f"{settings.lambda_group}-"):
        return settings.lambda_group
    return worker_id.partition(settings.group_separator)[0]


def ranked_at(now: datetime, every: timedelta, looker: str = "") -> Rank:
    """Ranks workers in the same order for all workers that decide within one interval `every`, and in another order in
    the next. So a worker that does not take part (it has another `balance` setting) does not block the others for ever.
    `looker`: gives this worker an order of its own.
    """
    turn = int(now.timestamp() / every.total_seconds())
    return lambda worker_id: blake2b(f"{turn}/{looker}/{worker_id}".encode(), digest_size=8).digest()


def moves_between_groups(
    held: Mapping[str, int],
    stealable: Mapping[str, int],
    groups: Mapping[str, str],
    thieves: Collection[str],
    target: int,
    most: int,
    rank: Rank,
) -> tuple[GroupMove, ...]:
    """The moves of one tick by all `thieves` (the workers that take part), at most `most` for each. Together they fill
    what groups are short of.

    Each worker decides on its own. So each plans for all and makes only its own moves; workers that scan at the same
    moment make the same plan. `held`: live leases of every live worker; `stealable`: how many of those may be stolen;
    `target`: KCL's fair share.
    """
    workers, leases = len(held), sum(held.values())
    over: Counter[str] = Counter()
    """Leases above a group's share, times the number of workers, so that they are whole numbers."""
    for worker_id, count in held.items():
        over[groups[worker_id]] += count * workers - leases
    givers = _next_last(groups, _to_give(held, stealable, target, rank))
    takers = _next_last(groups, _to_take(held, thieves, target, most, rank), is_descending=True)
    moves: list[GroupMove] = []
    while givers and takers:
        giver = max(givers, key=lambda group: (over[group], group))
        taker = min(takers, key=lambda group: (over[group], group))
        is_due = over[giver] > 0 > over[taker]
        if not is_due or over[giver] - over[taker] <= workers:
            break
        moves.append(GroupMove(_pop(givers, giver), _pop(takers, taker)))
        over[giver] -= workers
        over[taker] += workers
    return tuple(moves)


def _to_give(held: Mapping[str, int], stealable: Mapping[str, int], target: int, rank: Rank) -> Iterable[_MovableLease]:
    for worker_id, count in held.items():
        spare = min(count - target + 1, stealable.get(worker_id, 0))
        place = rank(worker_id) if spare > 0 else b""
        yield from (_MovableLease(count - given, place, worker_id) for given in range(spare))


def _to_take(
    held: Mapping[str, int], thieves: Collection[str], target: int, most: int, rank: Rank
) -> Iterable[_MovableLease]:
    for worker_id in thieves:
        room = min(target - held[worker_id], most)
        place = rank(worker_id)
        yield from (_MovableLease(held[worker_id] + taken, place, worker_id) for taken in range(room))


def _next_last(
    groups: Mapping[str, str], units: Iterable[_MovableLease], *, is_descending: bool = False
) -> dict[str, list[_MovableLease]]:
    """Returns the units by group, sorted so that the next one can be popped: the most leases first, or the fewest if
    `is_descending`.
    """
    queues: dict[str, list[_MovableLease]] = {}
    for unit in units:
        queues.setdefault(groups[unit.worker_id], []).append(unit)
    for queue in queues.values():
        queue.sort(reverse=is_descending)
    return queues


def _pop(queues: dict[str, list[_MovableLease]], group: str) -> str:
    unit = queues[group].pop()
    if not queues[group]:
        del queues[group]
    return unit.worker_id
