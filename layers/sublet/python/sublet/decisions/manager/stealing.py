"""Which leases to take from live workers, to balance what the setting `balance` names: leases between workers (KCL
2.x), leases between groups of workers, or bytes a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sublet.decisions.manager.group_balance import Rank, group_of, moves_between_groups, ranked_at
from sublet.decisions.manager.throughput_balance import LeaseMove, moves_by_throughput
from sublet.decisions.time_and_chance import Chance
from sublet.protocol.lease import Lease
from sublet.settings import Balance, Settings


@dataclass(slots=True)
class LeaseHoldings:
    """Which worker has which leases. A working copy: `held` and `stealable` change as leases are chosen.

    held       the number of live leases of each worker, our own included
    live       those leases, by worker
    stealable  the ones that may be stolen, by worker; none of our own
    """

    held: Counter[str]
    live: Mapping[str, Sequence[Lease]]
    stealable: dict[str, list[Lease]]

    @property
    def marked(self) -> Collection[str]:
        """Workers that may balance by our rules: their leases name a holder, which only sublet writes."""
        return {
            worker_id for worker_id, leases in self.live.items() if any(lease.held_by is not None for lease in leases)
        }


def fair_share(leases: int, workers: int, settings: Settings) -> int:
    """KCL's fair share: the most leases that a worker should hold."""
    return min(-(-leases // workers), settings.max_leases_for_worker)


def steal(
    holdings: LeaseHoldings, now: datetime, chance: Chance, settings: Settings, worker_ids: Sequence[str]
) -> tuple[LeaseMove, ...]:
    """Steals for each of our own `worker_ids`, which do not steal from each other.

    By throughput only if all workers use it: a worker of KCL 2.x counts leases, and the two rules would steal the same
    leases back and forth, or settle where neither is satisfied.
    """
    someone_counts = not holdings.held.keys() <= {*holdings.marked, *worker_ids}
    if settings.balance is Balance.LEASE or (settings.balance is Balance.THROUGHPUT and someone_counts):
        return _by_counts(holdings, chance, settings, worker_ids)
    is_seen = any(holdings.held[worker_id] for worker_id in worker_ids)
    rank = ranked_at(now, settings.failover_time, "" if is_seen else worker_ids[0])
    if settings.balance is Balance.GROUP:
        return _by_groups(holdings, rank, chance, settings, worker_ids)
    return _by_throughput(holdings, rank, settings, worker_ids)


def _by_counts(
    holdings: LeaseHoldings, chance: Chance, settings: Settings, worker_ids: Sequence[str]
) -> tuple[LeaseMove, ...]:
    """Each worker id steals up to `max_leases_to_steal_at_one_time` from the busiest worker that is not ours (a tie:
    first by name).
    """
    moves: list[LeaseMove] = []
    target = fair_share(holdings.held.total(), len(holdings.held), settings)
    for worker_id in worker_ids:
        victim = max(sorted(holdings.stealable), key=lambda owner: holdings.held[owner], default=None)
        if victim is None:
            break
        chance.shuffle(holdings.stealable[victim])
        count = _how_many(holdings.held[worker_id], holdings.held[victim], target, settings)
        count = min(count, len(holdings.stealable[victim]))
        moves += [_moved(victim, worker_id, holdings) for _ in range(count)]
        if not holdings.stealable[victim]:
            del holdings.stealable[victim]
    return tuple(moves)


def _how_many(mine: int, theirs: int, target: int, settings: Settings) -> int:
    """How many leases to steal: never so many that the victim has fewer than the thief. So the spread narrows to one
    and stays there.

    KCL takes the victim down to its target, or one lease from a victim at its target if the thief is two or more short
    of it.
    """
    room = min(_most(settings), settings.max_leases_for_worker - mine, (theirs - mine) // 2)
    if settings.fair_share:
        need = target - mine
        room = min(room, max(min(need, theirs - target), 1 if need > 1 and theirs >= target else 0))
    return max(room, 0)


def _by_groups(
    holdings: LeaseHoldings, rank: Rank, chance: Chance, settings: Settings, worker_ids: Sequence[str]
) -> tuple[LeaseMove, ...]:
    """Our share of the moves between groups. A worker id that has no such move steals within its own group by KCL's
    rule.
    """
    groups = {worker_id: group_of(worker_id, settings) for worker_id in holdings.held}
    planned = moves_between_groups(
        holdings.held,
        {owner: len(leases) for owner, leases in holdings.stealable.items()},
        groups,
        {*holdings.marked, *worker_ids},
        fair_share(holdings.held.total(), len(holdings.held), settings),
        _most(settings),
        rank,
    )
    moves: list[LeaseMove] = []
    for victim, thief in planned:
        if thief in worker_ids:
            chance.shuffle(holdings.stealable[victim])
            moves.append(_moved(victim, thief, holdings))
    thieves = {move.thief for move in moves}
    for group in sorted({groups[worker_id] for worker_id in worker_ids}):
        others = [one for one in worker_ids if groups[one] == group and one not in thieves]
        moves += _by_counts(_of_group(holdings, groups, group), chance, settings, others)
    return tuple(moves)


def _of_group(holdings: LeaseHoldings, groups: Mapping[str, str], group: str) -> LeaseHoldings:
    """Returns the holdings as if this group's workers were the only ones."""
    return LeaseHoldings(
        Counter({one: held for one, held in holdings.held.items() if groups[one] == group}),
        holdings.live,
        {owner: leases for owner, leases in holdings.stealable.items() if groups[owner] == group and leases},
    )


def _by_throughput(
    holdings: LeaseHoldings, rank: Rank, settings: Settings, worker_ids: Sequence[str]
) -> tuple[LeaseMove, ...]:
    moves = moves_by_throughput(
        {worker_id: holdings.live.get(worker_id, ()) for worker_id in holdings.held},
        holdings.stealable,
        {*holdings.marked, *worker_ids},
        _most(settings),
        rank,
    )
    return tuple(move for move in moves if move.thief in worker_ids)


def _most(settings: Settings) -> int:
    """The most leases that one worker id steals in one tick."""
    return min(settings.max_leases_to_steal_at_one_time, settings.leases_to_acquire)


def _moved(victim: str, thief: str, holdings: LeaseHoldings) -> LeaseMove:
    holdings.held[victim] -= 1
    holdings.held[thief] += 1
    return LeaseMove(holdings.stealable[victim].pop(), thief)
