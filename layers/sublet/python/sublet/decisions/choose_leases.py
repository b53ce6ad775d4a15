"""Which leases to send workers for: KCL 2.x's lease taker (`fair_share`), or greedily whatever is free.

Both take what is free or expired, whatever is uneven, and steal only when there is nothing of the kind: from the busiest worker,
or so that what `balance` names becomes even.
All sums are per worker id: our own are dealt with in turn, each seeing what the ones before it chose.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from sublet.decisions.chance import Chance
from sublet.decisions.crash_caution import pause_before
from sublet.decisions.group_balance import Move, group_of, moves_between_groups, ranked_at
from sublet.decisions.liveness import Sighting, idle_time, is_expired, is_very_old
from sublet.protocol.lease import Lease
from sublet.settings import Balance, Settings


class ClaimReason(StrEnum):
    """Why a lease is acquired. STEAL alone takes it from an owner that is alive."""

    FREE = "free"
    EXPIRED = "expired"
    CHILD = "child"
    STEAL = "steal"
    CONTINUE = "continue"


NOBODY: Mapping[str, str] = MappingProxyType({})


class Choice(Struct, frozen=True):
    lease: Lease
    worker_id: str
    why: ClaimReason


@dataclass(slots=True)
class _Market:
    """The working copy: the leases in play, which are neither ended, nor free and held back by a parent.

    available    what may be taken, children of what has just ended first, otherwise in an order by chance
    very_old     lease keys of those idle for over three failover times
    stealable    by live owner outside our own worker ids: what may be stolen from it
    held         how many live leases each worker id has, our own included; rises and falls as leases are chosen
    marked       owners of whom a lease has a holder, as sublet writes it: those who may balance as we do
    """

    available: tuple[tuple[Lease, ClaimReason], ...]
    very_old: frozenset[str]
    stealable: dict[str, list[Lease]]
    held: Counter[str]
    marked: set[str]


def choose_leases(
    leases: Sequence[Lease],
    sightings: Mapping[str, Sighting],
    now: datetime,
    chance: Chance,
    settings: Settings,
    worker_ids: Sequence[str],
    recently_ended: frozenset[str] = frozenset(),
    malformed: Collection[str] = (),
    under_way: Mapping[str, str] = NOBODY,
) -> tuple[Choice, ...]:
    """Choose leases for each of our own `worker_count`; a lease is chosen at most once.

    A lease may be chosen once every parent has ended or has no lease (KCL's BlockOnParentShardTask); one
    whose row is unreadable (`malformed`) has not ended. `recently_ended` are shard ids: their children go
    first, before anybody else has noticed them. `under_way`: by lease key the worker id that an earlier tick has sent
    for it, which counts as holding it from then on. With the same arguments and a `chance` of the same seed, the
    choice is the same.
    """
    market = _look(leases, sightings, now, chance, settings, worker_ids, recently_ended, malformed, under_way)
    if market.available:
        return _take(market, settings, worker_ids)
    return _steal(market, now, chance, settings, worker_ids) if settings.steals else ()


def _look(
    leases: Sequence[Lease],
    sightings: Mapping[str, Sighting],
    now: datetime,
    chance: Chance,
    settings: Settings,
    worker_ids: Sequence[str],
    recently_ended: frozenset[str],
    malformed: Collection[str],
    under_way: Mapping[str, str],
) -> _Market:
    ours = frozenset(worker_ids)
    unfinished = {lease.shard_id for lease in leases if not lease.is_ended}.union(malformed)
    available: list[tuple[Lease, ClaimReason]] = []
    stealable: dict[str, list[Lease]] = {}
    held, marked = Counter(dict.fromkeys(ours, 0)), set(ours)
    for lease in sorted((lease for lease in leases if not lease.is_ended), key=lambda lease: lease.lease_key):
        ready = unfinished.isdisjoint(lease.parent_shard_ids)
        owner = lease.actual_owner
        if lease.lease_key in under_way:
            held[under_way[lease.lease_key]] += 1
            continue
        if owner is None or is_expired(lease, sightings, now, settings.failover_time):
            rested = idle_time(lease, sightings, now) >= pause_before(lease, settings)
            if ready and rested:
                available.append((lease, _why(lease, recently_ended)))
            continue
        held[owner] += 1
        if lease.holder is not None:
            marked.add(owner)
        if ready and owner not in ours and lease.checkpoint_owner is None:
            stealable.setdefault(owner, []).append(lease)
    chance.shuffle(available)
    available.sort(key=lambda one: one[1] is not ClaimReason.CHILD)
    very_old = frozenset(
        one.lease_key for one, _ in available if is_very_old(one, sightings, now, settings.failover_time)
    )
    return _Market(tuple(available), very_old, stealable, held, marked)


def _why(lease: Lease, recently_ended: frozenset[str]) -> ClaimReason:
    if not recently_ended.isdisjoint(lease.parent_shard_ids):
        return ClaimReason.CHILD
    return ClaimReason.FREE if lease.actual_owner is None else ClaimReason.EXPIRED


def _take(market: _Market, settings: Settings, worker_ids: Sequence[str]) -> tuple[Choice, ...]:
    """What is urgent is shared out among our own worker ids whatever the fair share, then the rest within it.

    Evenly, since our own never steal from each other: four leases for three are 2, 1, 1, where each KCL worker
    would take its fair share of 2 and leave the third with none.
    KCL stops after the very old ones and takes the rest 20 s later. A tick may be minutes away, so we go on:
    it is what two of KCL's passes would take. Greedy: everything is urgent.
    """
    target = _target(market, settings)
    urgent: deque[tuple[Lease, ClaimReason]] = deque()
    rest: deque[tuple[Lease, ClaimReason]] = deque()
    for one in market.available:
        first = not settings.fair_share or (
            settings.enable_priority_lease_assignment and one[0].lease_key in market.very_old
        )
        (urgent if first else rest).append(one)
    chosen: list[Choice] = []
    for turn, worker_id in enumerate(worker_ids):
        before = market.held[worker_id]
        limit = min(before + settings.leases_to_acquire, settings.max_leases_for_worker)
        for pool, most in ((urgent, limit), (rest, min(target, limit))):
            share = min(most, _even_share(market, worker_ids[turn:], len(pool)))
            while pool and market.held[worker_id] < share:
                chosen.append(Choice(pool[0][0], worker_id, pool.popleft()[1]))
                market.held[worker_id] += 1
    return tuple(chosen)


def _even_share(market: _Market, worker_ids: Sequence[str], available: int) -> int:
    """How many leases the first of these worker ids ends up with, if they share evenly what is available."""
    return _ceil_divide(sum(market.held[worker_id] for worker_id in worker_ids) + available, len(worker_ids))


def _target(market: _Market, settings: Settings) -> int:
    """KCL's fair share: the most leases that a worker id should hold.

    KCL counts ended leases too, because its workers take those again to clean them up. Ours do not: only
    leases in play count.
    """
    return min(
        _ceil_divide(market.held.total() + len(market.available), len(market.held)),
        settings.max_leases_for_worker,
    )


def _steal(
    market: _Market, now: datetime, chance: Chance, settings: Settings, worker_ids: Sequence[str]
) -> tuple[Choice, ...]:
    if settings.balance is Balance.GROUP:
        return _steal_by_groups(market, now, chance, settings, worker_ids)
    return _steal_by_counts(market, chance, settings, worker_ids)


def _steal_by_groups(
    market: _Market, now: datetime, chance: Chance, settings: Settings, worker_ids: Sequence[str]
) -> tuple[Choice, ...]:
    """From other groups what falls to us of that; a worker id to which nothing does, from its own group by KCL's rule."""
    groups = {worker_id: group_of(worker_id, settings) for worker_id in market.held}
    is_seen = any(market.held[worker_id] for worker_id in worker_ids)
    moves = moves_between_groups(
        market.held,
        {owner: len(leases) for owner, leases in market.stealable.items()},
        groups,
        market.marked,
        _target(market, settings),
        min(settings.max_leases_to_steal_at_one_time, settings.leases_to_acquire),
        ranked_at(now, settings.failover_time, "" if is_seen else worker_ids[0]),
    )
    chosen = [_stolen(move, market, chance) for move in moves if move.thief in worker_ids]
    thieves = {choice.worker_id for choice in chosen}
    for group in sorted({groups[worker_id] for worker_id in worker_ids}):
        others = [one for one in worker_ids if groups[one] == group and one not in thieves]
        chosen += _steal_by_counts(_of_group(market, groups, group), chance, settings, others)
    return tuple(chosen)


def _of_group(market: _Market, groups: Mapping[str, str], group: str) -> _Market:
    """As if there were no other workers than this group's."""
    return _Market(
        (),
        frozenset(),
        {owner: leases for owner, leases in market.stealable.items() if groups[owner] == group},
        Counter({worker_id: held for worker_id, held in market.held.items() if groups[worker_id] == group}),
        market.marked,
    )


def _stolen(move: Move, market: _Market, chance: Chance) -> Choice:
    """Any of the victim's leases."""
    leases = market.stealable[move.victim]
    chance.shuffle(leases)
    market.held[move.victim] -= 1
    market.held[move.thief] += 1
    return Choice(leases.pop(), move.thief, ClaimReason.STEAL)


def _steal_by_counts(
    market: _Market, chance: Chance, settings: Settings, worker_ids: Sequence[str]
) -> tuple[Choice, ...]:
    """Per worker id up to `max_leases_to_steal_at_one_time` of the busiest worker that is not ours (a tie: first by name)."""
    chosen: list[Choice] = []
    target = _target(market, settings)
    for worker_id in worker_ids:
        victim = max(sorted(market.stealable), key=lambda owner: market.held[owner], default=None)
        if victim is None:
            break
        victims = market.stealable[victim]
        chance.shuffle(victims)
        count = _how_many_to_steal(market.held[worker_id], market.held[victim], target, settings)
        for _ in range(min(count, len(victims))):
            chosen.append(Choice(victims.pop(), worker_id, ClaimReason.STEAL))
            market.held[victim] -= 1
            market.held[worker_id] += 1
        if not victims:
            del market.stealable[victim]
    return tuple(chosen)


def _how_many_to_steal(mine: int, theirs: int, target: int, settings: Settings) -> int:
    """Never so many that the victim has fewer than the thief: the spread narrows to one, and stays.

    KCL takes the victim down to its target, or one from a victim at its target if the thief is two or more
    short of it.
    """
    room = min(
        settings.max_leases_to_steal_at_one_time,
        settings.leases_to_acquire,
        settings.max_leases_for_worker - mine,
        (theirs - mine) // 2,
    )
    if settings.fair_share:
        need = target - mine
        room = min(room, max(min(need, theirs - target), 1 if need > 1 and theirs >= target else 0))
    return max(room, 0)


def _ceil_divide(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
