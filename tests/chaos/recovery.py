"""Computes how long after each fault its shards were delivered again, from the journals alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.chaos.journal import Begun, Ended, Entry
from tests.chaos.plan import Kind

NANOSECONDS = 1_000_000_000


class Fault(NamedTuple):
    """What was done. Nanoseconds since the epoch; `until` is `at` for an instantaneous fault.

    `shards`: for a worker, those that it was handling; for the network, those that anybody was. Empty if the process
    had not delivered anything yet.
    """

    kind: Kind
    at: int
    until: int
    shards: frozenset[str]
    what: str

    @property
    def begins_recovery(self) -> int:
        """From when on recovery is possible: a bad network must end first, while a suspended worker is replaced."""
        return self.until if self.kind is Kind.NETWORK else self.at


class Tick(NamedTuple):
    """A successful tick."""

    began: int
    ended: int


class Recovery(NamedTuple):
    """`seconds` from the fault until the last of its shards delivers again, None if one never did.

    `undisturbed`: the same, from the last other fault in between. A worker killed just after it took over from a
    killed one starts again, and nothing recovers while the network is down.
    """

    fault: Fault
    seconds: float | None
    undisturbed: float | None

    @property
    def is_undisturbed(self) -> bool:
        return self.undisturbed is not None and self.undisturbed == self.seconds


def recoveries(faults: Sequence[Fault], entries: Sequence[Entry], ticks: Sequence[Tick]) -> list[Recovery]:
    """For each fault that hit anything. The lease manager has recovered when a later tick succeeds."""
    signs = _signs_of_life(entries)
    ended = {entry.shard_id for entry in entries if isinstance(entry, Ended)}
    ends = {fault: _recovered_at(fault, signs, ended, ticks) for fault in faults if _is_measured(fault)}
    return [_recovery(fault, end, ends, faults) for fault, end in ends.items()]


def _is_measured(fault: Fault) -> bool:
    return fault.kind is Kind.KILL_MANAGER or (fault.kind is not Kind.RESHARD and bool(fault.shards))


def _signs_of_life(entries: Iterable[Entry]) -> dict[str, list[int]]:
    """By shard, sorted by time: when the handler was called for it, or told of its end."""
    signs: dict[str, list[int]] = {}
    for entry in entries:
        if not isinstance(entry, Begun):
            signs.setdefault(entry.shard_id, []).append(entry.at)
    for times in signs.values():
        times.sort()
    return signs


def _recovered_at(fault: Fault, signs: dict[str, list[int]], ended: set[str], ticks: Sequence[Tick]) -> int | None:
    if fault.kind is Kind.KILL_MANAGER:
        return min((tick.ended for tick in ticks if tick.began > fault.at), default=None)
    latest = fault.begins_recovery
    for shard_id in fault.shards:
        times = signs.get(shard_id, [])
        index = bisect_right(times, fault.begins_recovery)
        if index == len(times):
            if shard_id in ended:
                continue  # just before it, or while the network was bad
            return None
        latest = max(latest, times[index])
    return latest


def _recovery(fault: Fault, end: int | None, ends: dict[Fault, int | None], faults: Iterable[Fault]) -> Recovery:
    began = fault.begins_recovery
    if end is None:
        return Recovery(fault, None, None)
    others = (other for other in faults if other is not fault and other.at < end and _hits(other, fault))
    last_hit = max((min(_until_when(other, ends), end) for other in others), default=began)
    last_hit = max(last_hit, began)
    return Recovery(fault, (end - began) / NANOSECONDS, (end - last_hit) / NANOSECONDS)


def _hits(other: Fault, fault: Fault) -> bool:
    """True if `other`, coming in between, can delay the recovery from `fault`."""
    if other.kind in (Kind.NETWORK, Kind.KILL_MANAGER):
        return True
    if other.kind is Kind.RESHARD or fault.kind is Kind.KILL_MANAGER:
        return False
    return not other.shards or not other.shards.isdisjoint(fault.shards)


def _until_when(other: Fault, ends: dict[Fault, int | None]) -> int:
    """When its harm is done. Without a lease manager, lost leases are found at the next tick."""
    if other.kind is Kind.KILL_MANAGER:
        return ends.get(other) or other.at
    return other.until if other.kind is Kind.NETWORK else other.at
