"""Balances bytes a second between workers, by the throughput in the lease rows (KCL 3's `throughputKBps`).

The rule is that of KCL 3's leader, without a leader. Nothing moves while every worker is within a tenth of the mean. Of
what a worker has beyond the mean, three fifths move at a time. Throughput is measured late and never stands still:
without the threshold leases would follow each fluctuation, and without the dampening they would overshoot.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import NamedTuple

from sublet.decisions.manager.group_balance import Rank
from sublet.protocol.lease import Lease

THRESHOLD = 0.1
"""KCL's reBalanceThresholdPercentage: the tolerated distance from the mean."""

DAMPENING = 0.6
"""KCL's dampeningPercentage: the part of an excess that moves at a time."""


class LeaseMove(NamedTuple):
    lease: Lease
    thief: str


class _WeighedLease(NamedTuple):
    kbps: float
    lease: Lease


@dataclass(slots=True)
class _WorkerLoad:
    """A worker's load after the moves so far. `place`: among workers with equal loads, by `Rank`.

    spare   KB a second that it may still lose in this tick
    leases  the stealable ones that are not idle, the lightest first
    """

    worker_id: str
    place: bytes
    kbps: float
    spare: float
    leases: list[_WeighedLease]
    has_given: bool = False


def moves_by_throughput(
    live: Mapping[str, Sequence[Lease]],
    stealable: Mapping[str, Sequence[Lease]],
    thieves: Collection[str],
    most: int,
    rank: Rank,
) -> tuple[LeaseMove, ...]:
    """The moves of one tick by all `thieves` (the workers that take part), at most `most` for each; each worker plans
    for all, as in `moves_between_groups`.

    `live`: the leases of every live worker, including workers without any; `stealable`: those that may be stolen.
    """
    weighed = _weighed(live)
    loads = {owner: sum(weighed[lease.lease_key].kbps for lease in leases) for owner, leases in live.items()}
    mean = fmean(loads.values()) if loads else 0.0
    workers = {
        owner: _WorkerLoad(
            owner,
            rank(owner),
            load,
            DAMPENING * (load - mean),
            _movable(stealable.get(owner, ()), weighed),
        )
        for owner, load in loads.items()
    }
    takers = sorted((workers[one] for one in thieves if loads[one] < mean), key=lambda one: (one.kbps, one.place))
    plan = _BalancePlan(mean, [worker for worker in workers.values() if worker.kbps > mean], rank)
    return tuple(
        LeaseMove(lease, taker.worker_id)
        for taker in takers
        for _ in range(most)
        if (lease := plan.next_for(taker)) is not None
    )


def _weighed(live: Mapping[str, Sequence[Lease]]) -> Mapping[str, _WeighedLease]:
    """Each lease's throughput, by lease key. A lease that was not measured counts as the mean of the others."""
    rates = {
        lease.lease_key: lease.throughput_kbps
        for lease in _all_of(live)
        if lease.throughput_kbps is not None and isfinite(lease.throughput_kbps)
    }
    unmeasured = fmean(rates.values()) if rates else 1.0
    return {lease.lease_key: _WeighedLease(rates.get(lease.lease_key, unmeasured), lease) for lease in _all_of(live)}


def _movable(leases: Iterable[Lease], weighed: Mapping[str, _WeighedLease]) -> list[_WeighedLease]:
    found = (weighed[lease.lease_key] for lease in leases)
    return sorted((one for one in found if one.kbps > 0), key=lambda one: (one.kbps, one.lease.lease_key))


def _all_of(live: Mapping[str, Sequence[Lease]]) -> Iterable[Lease]:
    return (lease for leases in live.values() for lease in leases)


@dataclass(slots=True)
class _BalancePlan:
    mean: float
    victims: list[_WorkerLoad]
    rank: Rank

    def next_for(self, taker: _WorkerLoad) -> Lease | None:
        """The next lease for this taker, from the busiest worker that has a suitable one."""
        if taker.kbps >= self.mean:
            return None
        for victim in sorted(self.victims, key=lambda one: (-one.kbps, one.place)):
            if not self._is_worth_it(victim, taker):
                continue
            if (one := self._fitting(victim, taker) or self._overshooting(victim, taker)) is not None:
                _move(one, victim, taker)
                return one.lease
        return None

    def _is_worth_it(self, victim: _WorkerLoad, taker: _WorkerLoad) -> bool:
        """Whether one of the two is out of bounds. A third worker may be out of bounds without a remedy (a single hot
        lease), which is no reason to move other leases.
        """
        band = THRESHOLD * self.mean
        return victim.kbps > self.mean + band or taker.kbps < self.mean - band

    def _fitting(self, victim: _WorkerLoad, taker: _WorkerLoad) -> _WeighedLease | None:
        """A lease that takes neither of them across the mean, and not more from the victim than may move at a time. It
        is one of the heavier half, since a few moves are better than many.
        """
        room = min(victim.spare, self.mean - taker.kbps)
        fitting = victim.leases[: bisect_right(victim.leases, room, key=lambda one: one.kbps)]
        heavier = (one for one in fitting if 2 * one.kbps >= fitting[-1].kbps)
        return min(heavier, key=lambda one: self.rank(one.lease.lease_key), default=None)

    def _overshooting(self, victim: _WorkerLoad, taker: _WorkerLoad) -> _WeighedLease | None:
        """KCL's allowThroughputOvershoot: the lightest lease, if all are too heavy. Only if the taker then has clearly
        less than the victim had: otherwise the lease would come back with the next fluctuation.
        """
        if victim.has_given or not victim.leases:
            return None
        lightest = victim.leases[0]
        is_clear = taker.kbps + lightest.kbps <= victim.kbps - THRESHOLD * self.mean
        return lightest if is_clear else None


def _move(one: _WeighedLease, victim: _WorkerLoad, taker: _WorkerLoad) -> None:
    victim.leases.remove(one)
    victim.has_given = True
    victim.spare -= one.kbps
    victim.kbps -= one.kbps
    taker.kbps += one.kbps
