"""Which leases to send workers for: by the rule of KCL 2.x's lease taker (`fair_share`), or greedily whatever is free.

Both take free and expired leases, however uneven that is, and steal only if there are none: from the busiest worker, or
so that what `balance` names becomes even. Under a KCL 3.x leader (`fleet`), leases assigned to us are taken whatever
the share, and nothing is stolen.

All sums are per worker id. Our own worker ids choose in turn, each seeing what the ones before it chose.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from sublet.decisions.manager.fleet_kind import NO_LEADER, NOT_HEARD_OF_FOR, Fleet, given_to
from sublet.decisions.manager.liveness import Sighting, idle_time, is_expired, is_very_old
from sublet.decisions.manager.stealing import LeaseHoldings, fair_share, steal
from sublet.decisions.session.crash_caution import pause_before
from sublet.decisions.time_and_chance import Chance
from sublet.protocol.lease import Lease
from sublet.settings import Settings


class ClaimReason(StrEnum):
    """Why a lease is acquired. Only STEAL takes it from a live owner."""

    ASSIGNED = "assigned"
    """A KCL 3.x leader has assigned it to our worker id."""
    FREE = "free"
    EXPIRED = "expired"
    CHILD = "child"
    STEAL = "steal"
    CONTINUE = "continue"


NONE_UNDER_WAY: Mapping[str, str] = MappingProxyType({})


class LeaseChoice(Struct, frozen=True):
    lease: Lease
    worker_id: str
    why: ClaimReason


class FleetBalance(Struct, frozen=True):
    """The figures behind a choice: the fleet's state before it.

    leases     in play: held by live owners, or free
    available  those of these leases that may be taken without stealing
    workers    live workers, our own worker ids included
    target     KCL's fair share: the most leases that a worker id should hold
    held       by our own worker ids
    """

    leases: int
    available: int
    workers: int
    target: int
    held: int


class ChosenLeases(Struct, frozen=True):
    choices: tuple[LeaseChoice, ...]
    standing: FleetBalance


@dataclass(slots=True)
class _Market:
    """The working copy: the leases in play, which are neither ended, nor free but waiting for a parent.

    assigned   assigned to us by a leader
    available  may be taken; children of shards that have just ended come first, the rest in random order
    unneeded   how many others are free and need no worker now; they count in the fair share
    urgent     lease keys that are taken before the fair share is applied
    stealable  by live owner outside our own worker ids: the leases that may be stolen from it
    held       the number of live leases of each worker id, our own included; changes as leases are chosen
    live       those leases, by worker id
    """

    assigned: tuple[LeaseChoice, ...]
    available: tuple[tuple[Lease, ClaimReason], ...]
    unneeded: int
    urgent: frozenset[str]
    stealable: dict[str, list[Lease]]
    held: Counter[str]
    live: dict[str, list[Lease]]


def choose_leases(
    leases: Sequence[Lease],
    sightings: Mapping[str, Sighting],
    now: datetime,
    chance: Chance,
    settings: Settings,
    worker_ids: Sequence[str],
    recently_ended: frozenset[str] = frozenset(),
    malformed: Collection[str] = (),
    under_way: Mapping[str, str] = NONE_UNDER_WAY,
    fleet: Fleet = NO_LEADER,
    paused: Collection[str] = (),
    left_alone: Collection[str] = (),
) -> ChosenLeases:
    """Choose leases for each of our own `worker_count`; a lease is chosen at most once.

    A lease may be chosen once every parent has ended or has no lease (KCL's BlockOnParentShardTask). A lease whose row
    is unreadable (`malformed`) has not ended. `recently_ended` are shard ids: their children go first, before other
    workers have noticed them. `under_way`: lease key to the worker id that an earlier tick has sent for it, which
    counts as its holder. `paused`: lease keys that an operator has paused; their owners are on their way to release
    them. `fleet`: whether a leader assigns the leases; its members count as workers before they hold
    anything, unless all their leases are expiring. `left_alone`: keys of free leases that need no worker now. They
    are not chosen, and count in the fair share. The choice is the same for the same arguments and a
    `chance` of the same seed.
    """
    market = _look(
        leases,
        sightings,
        now,
        chance,
        settings,
        worker_ids,
        recently_ended,
        malformed,
        under_way,
        fleet,
        paused,
        left_alone,
    )
    standing = _standing(market, settings, worker_ids)
    choices: tuple[LeaseChoice, ...] = ()
    if market.available:
        choices = _take(market, settings, worker_ids)
    elif settings.steals and not fleet.is_led:
        choices = _steal(market, now, chance, settings, worker_ids)
    return ChosenLeases(market.assigned + choices, standing)


def _standing(market: _Market, settings: Settings, worker_ids: Sequence[str]) -> FleetBalance:
    available = len(market.available)
    return FleetBalance(
        market.held.total() + available + market.unneeded,
        available,
        len(market.held),
        _target(market, settings),
        sum(market.held[worker_id] for worker_id in worker_ids),
    )


def _steal(
    market: _Market, now: datetime, chance: Chance, settings: Settings, worker_ids: Sequence[str]
) -> tuple[LeaseChoice, ...]:
    holdings = LeaseHoldings(market.held, market.live, market.stealable)
    moves = steal(holdings, now, chance, settings, worker_ids)
    return tuple(LeaseChoice(lease, thief, ClaimReason.STEAL) for lease, thief in moves)


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
    fleet: Fleet,
    paused: Collection[str],
    left_alone: Collection[str],
) -> _Market:
    ours = frozenset(worker_ids)
    unfinished = {lease.shard_id for lease in leases if not lease.is_ended}.union(malformed)
    assigned: list[LeaseChoice] = []
    available: list[tuple[Lease, ClaimReason]] = []
    stealable: dict[str, list[Lease]] = {}
    is_led = fleet.is_led
    live, losing = defaultdict[str, list[Lease]](list), set[str]()
    in_question = (lease for lease in leases if not lease.is_ended and lease.lease_key not in left_alone)
    for lease in sorted(in_question, key=lambda lease: lease.lease_key):
        ready = unfinished.isdisjoint(lease.parent_shard_ids)
        owner = lease.actual_owner
        if lease.lease_key in under_way:
            live[under_way[lease.lease_key]].append(lease)
        elif lease.lease_key in paused:
            if owner is not None and not is_expired(lease, sightings, now, settings.failover_time):
                live[owner].append(lease)
        elif (given := given_to(lease, ours, fleet)) is not None:
            live[given].append(lease)
            if ready and _has_rested(lease, sightings, now, settings):
                assigned.append(LeaseChoice(lease, given, ClaimReason.ASSIGNED))
        elif owner is None or is_expired(
            lease, sightings, now, _patience(lease, sightings, settings) if is_led else settings.failover_time
        ):
            losing.update([] if owner is None else [owner])
            if ready and _has_rested(lease, sightings, now, settings):
                available.append((lease, _why(lease, recently_ended)))
        else:
            live[owner].append(lease)
            if ready and owner not in ours and lease.checkpoint_owner is None:
                stealable.setdefault(owner, []).append(lease)
    held = Counter({owner: len(of_owner) for owner, of_owner in live.items()})
    held.update(dict.fromkeys(ours | fleet.joining | (fleet.members - held.keys() - losing), 0))
    chance.shuffle(available)
    available.sort(key=lambda one: one[1] is not ClaimReason.CHILD)
    urgent = frozenset(one.lease_key for one, _ in available if _is_urgent(one, sightings, now, settings, fleet))
    return _Market(tuple(assigned), tuple(available), len(left_alone), urgent, stealable, held, live)


def _is_urgent(
    lease: Lease, sightings: Mapping[str, Sighting], now: datetime, settings: Settings, fleet: Fleet
) -> bool:
    """Whether to take the lease before the fair share is applied. KCL 2.x does so with very old leases, and a lease
    that was never held counts as very old; but never-held leases are shared with workers that are joining.

    Under a leader: any lease that was held and is lost, because other workers do not take it before the leader's next
    round, and the lost worker may be the leader. The leader evens out the result. Never-held leases are the leader's to
    assign.
    """
    if lease.lease_key not in sightings and (fleet.is_led or fleet.joining):
        return False
    if fleet.is_led:
        return idle_time(lease, sightings, now) > settings.failover_time
    return is_very_old(lease, sightings, now, settings.failover_time)


def _has_rested(lease: Lease, sightings: Mapping[str, Sighting], now: datetime, settings: Settings) -> bool:
    return idle_time(lease, sightings, now) >= pause_before(lease, settings)


def _patience(lease: Lease, sightings: Mapping[str, Sighting], settings: Settings) -> timedelta:
    """How long an owner may be silent before it counts as lost. An owner that a leader has only just named gets
    longer.
    """
    sighting = sightings.get(lease.lease_key)
    is_starting = sighting is not None and sighting.is_unheard
    return settings.failover_time * (NOT_HEARD_OF_FOR if is_starting else 1)


def _why(lease: Lease, recently_ended: frozenset[str]) -> ClaimReason:
    if not recently_ended.isdisjoint(lease.parent_shard_ids):
        return ClaimReason.CHILD
    return ClaimReason.FREE if lease.actual_owner is None else ClaimReason.EXPIRED


def _take(market: _Market, settings: Settings, worker_ids: Sequence[str]) -> tuple[LeaseChoice, ...]:
    """Share urgent leases among our own worker ids whatever the fair share, then the rest within it.

    They are shared evenly, since our own worker ids never steal from each other. Four leases for three of them are 2,
    1, 1. KCL workers would take their fair share of 2 each and leave the third with none.

    KCL stops after the very old ones and takes the rest 20 s later. A tick may be minutes away, so we take now what two
    of KCL's passes would take. Without `fair_share` everything is urgent.
    """
    target = _target(market, settings)
    urgent: deque[tuple[Lease, ClaimReason]] = deque()
    rest: deque[tuple[Lease, ClaimReason]] = deque()
    for one in market.available:
        first = not settings.fair_share or (
            settings.enable_priority_lease_assignment and one[0].lease_key in market.urgent
        )
        (urgent if first else rest).append(one)
    chosen: list[LeaseChoice] = []
    for turn, worker_id in enumerate(worker_ids):
        before = market.held[worker_id]
        limit = min(before + settings.leases_to_acquire, settings.max_leases_for_worker)
        for pool, most in ((urgent, limit), (rest, min(target, limit))):
            share = min(most, _even_share(market, worker_ids[turn:], len(pool)))
            while pool and market.held[worker_id] < share:
                chosen.append(LeaseChoice(pool[0][0], worker_id, pool.popleft()[1]))
                market.held[worker_id] += 1
    return tuple(chosen)


def _even_share(market: _Market, worker_ids: Sequence[str], available: int) -> int:
    """How many leases the first of these worker ids ends up with if they share the available ones evenly."""
    return _ceil_divide(sum(market.held[worker_id] for worker_id in worker_ids) + available, len(worker_ids))


def _target(market: _Market, settings: Settings) -> int:
    """KCL's fair share: the most leases that a worker id should hold.

    KCL counts ended leases too, because its workers take them again to clean them up. Ours do not, so only leases in
    play count.
    """
    in_play = market.held.total() + len(market.available) + market.unneeded
    return fair_share(in_play, len(market.held), settings)


def _ceil_divide(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
