"""Compares the positions of two applications that read the same stream, shard by shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from sublet.decisions.session.handled_position import HandledPosition
from sublet.protocol.checkpoint import Sentinel
from sublet.protocol.lease import Lease

AT_A_MOMENT = (Sentinel.AT_TIMESTAMP, Sentinel.LATEST)


class Standing(StrEnum):
    """How the first application stands at a shard, as seen from the second."""

    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead"
    ONLY_FIRST = "only first"
    """The second has no lease of it: it has not come so far, or has forgotten the shard."""
    ONLY_SECOND = "only second"
    UNKNOWN = "unknown"
    """The positions differ, and which is ahead cannot be told: one begins at a time, or at LATEST."""


class PositionDifference(Struct, frozen=True):
    """A shard of either application.

    first, second  their leases; None without one
    time           between the arrivals of what both have handled last; None if that is not known
    records        about how many arrived between these; None if that is not known
    """

    shard_id: str
    standing: Standing
    first: Lease | None
    second: Lease | None
    time: timedelta | None = None
    records: int | None = None

    def differs(self, within: timedelta) -> bool:
        """Whether the applications differ here by more than `within`."""
        if self.standing in (Standing.BEHIND, Standing.AHEAD):
            return self.time is None or self.time > within or not within
        return self.standing is not Standing.EQUAL


def differences(first: Iterable[Lease], second: Iterable[Lease]) -> Sequence[PositionDifference]:
    """Returns every shard of either, in the order of their names, without times. A shard that one has handled to its
    end, and of which the other has only its descendants' leases, is handled to its end by both.
    """
    ours, theirs = ({lease.shard_id: lease for lease in leases} for leases in (first, second))
    return [
        PositionDifference(shard, _standing(shard, ours, theirs), ours.get(shard), theirs.get(shard))
        for shard in sorted(ours.keys() | theirs.keys())
    ]


def _standing(shard_id: str, ours: Mapping[str, Lease], theirs: Mapping[str, Lease]) -> Standing:
    first, second = ours.get(shard_id), theirs.get(shard_id)
    if first is None or second is None:
        leases, others = (ours, theirs) if second is None else (theirs, ours)
        if leases[shard_id].is_ended and _has_descendant(shard_id, others, leases):
            return Standing.EQUAL
        return Standing.ONLY_FIRST if second is None else Standing.ONLY_SECOND
    if first.position == second.position:
        return Standing.EQUAL
    if any(each.checkpoint.sentinel in AT_A_MOMENT for each in (first, second)):
        return Standing.UNKNOWN
    return Standing.BEHIND if first.checkpoint < second.checkpoint else Standing.AHEAD


def _has_descendant(shard_id: str, leases: Mapping[str, Lease], also_known: Mapping[str, Lease]) -> bool:
    """Whether one of the leases is of a descendant, as far as the rows of both applications tell."""
    found, parents = {shard_id}, {**also_known, **leases}
    for lease in sorted(parents.values(), key=lambda each: each.shard_id):  # a child's number is larger
        if not found.isdisjoint(lease.parent_shard_ids):
            found.add(lease.shard_id)
    return any(each in leases for each in found - {shard_id})


def between(first: HandledPosition, second: HandledPosition, now: datetime) -> tuple[datetime, datetime] | None:
    """The arrival times of what the two have handled last, the earlier first; None if one is not known."""
    reached = [each.handled_to or (None if each.lag is None else now - each.lag) for each in (first, second)]
    one, other = reached
    return None if one is None or other is None else (min(one, other), max(one, other))
