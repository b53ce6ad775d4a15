"""Evening out leases between groups of workers: the clusters, zones or deployments that share a stream.

KCL's fair share is rounded up for each worker, and a worker that is one short of it may not steal from one that has it. So 500
leases on a cluster of 100 workers and a second one that came later stay at 300 and 200 for ever: no two workers are more than one
apart, and one cluster does one and a half times the other's work.

A group's share is by its number of workers. A lease moves from a group that is beyond its share to one that is short of it, if
they are more than one lease apart; and only from a worker that has KCL's fair share to one that has less: then the one does not
become two short of it, nor does the other get more, and a KCL 2.x worker finds nothing to take back. So each move lessens the
spread, and there is a last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple

from sublet.settings import Settings

Rank = Callable[[str], bytes]
"""A worker's place among its equals."""


class Move(NamedTuple):
    """One lease of the victim's goes to the thief."""

    victim: str
    thief: str


class _Unit(NamedTuple):
    """One lease that a worker may lose or come by: how many it has just before, by the plan."""

    held: int
    rank: bytes
    worker_id: str


def group_of(worker_id: str, settings: Settings) -> str:
    """The worker id up to the first `group_separator`, or all of it. The worker ids of a Lambda deployment are one group."""
    if worker_id.startswith(f"{settings.lambda_group}-"):
        return settings.lambda_group
    return worker_id.partition(settings.group_separator)[0]


def ranked_at(now: datetime, every: timedelta, looker: str = "") -> Rank:
    """The same order for all who decide in the same while, and another in the next: whoever has a place in it and does not take
    part (a worker that is set to another balance) does not keep the others from theirs for ever. `looker`: an order of its own.
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
) -> tuple[Move, ...]:
    """The moves of one tick, by all `thieves` (those that take part), at most so many for each: together what is short.

    Each worker decides apart. So each plans for all, and makes only those moves that are its own; who looks at the same moment
    plans the same. `held`: live leases of every live worker; `stealable`: how many of them may be; `target`: KCL's fair share.
    """
    workers, leases = len(held), sum(held.values())
    over: Counter[str] = Counter()
    """Leases beyond a group's share, times the number of workers, which makes whole numbers of them."""
    for worker_id, count in held.items():
        over[groups[worker_id]] += count * workers - leases
    givers = _next_last(groups, _to_give(held, stealable, target, rank))
    takers = _next_last(groups, _to_take(held, thieves, target, most, rank), is_descending=True)
    moves: list[Move] = []
    while givers and takers:
        giver = max(givers, key=lambda group: (over[group], group))
        taker = min(takers, key=lambda group: (over[group], group))
        is_due = over[giver] > 0 > over[taker]
        if not is_due or over[giver] - over[taker] <= workers:
            break
        moves.append(Move(_pop(givers, giver), _pop(takers, taker)))
        over[giver] -= workers
        over[taker] += workers
    return tuple(moves)


def _to_give(
    held: Mapping[str, int], stealable: Mapping[str, int], target: int, rank: Rank
) -> Iterable[_Unit]:
    for worker_id, count in held.items():
        spare = min(count - target + 1, stealable.get(worker_id, 0))
        place = rank(worker_id) if spare > 0 else b""
        yield from (_Unit(count - given, place, worker_id) for given in range(spare))


def _to_take(
    held: Mapping[str, int], thieves: Collection[str], target: int, most: int, rank: Rank
) -> Iterable[_Unit]:
    for worker_id in thieves:
        room = min(target - held[worker_id], most)
        place = rank(worker_id)
        yield from (_Unit(held[worker_id] + taken, place, worker_id) for taken in range(room))


def _next_last(
    groups: Mapping[str, str], units: Iterable[_Unit], *, is_descending: bool = False
) -> dict[str, list[_Unit]]:
    """By group, sorted so that the next one is popped: the most leases first, or with `is_descending` the fewest."""
    queues: dict[str, list[_Unit]] = {}
    for unit in units:
        queues.setdefault(groups[unit.worker_id], []).append(unit)
    for queue in queues.values():
        queue.sort(reverse=is_descending)
    return queues


def _pop(queues: dict[str, list[_Unit]], group: str) -> str:
    unit = queues[group].pop()
    if not queues[group]:
        del queues[group]
    return unit.worker_id
