"""Which leases have lost their owner, judged by counters alone: the lease table holds no time (KCL).

A sighting records when a lease manager first saw a counter value. If that value is still there later, the counter has
not moved in between, since counters only rise. So sightings stay true when ticks overlap and the last writer wins: a
lost update can only delay an expiry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from sublet.protocol.lease import Lease

LATELY = timedelta(hours=1)
"""How long a lease's last move is remembered."""

CLOCK_RIGHT_WITHIN = timedelta(seconds=2)
"""How imprecise the service's time is: it comes in whole seconds, and the answer takes a moment."""

VERY_OLD = 3
"""KCL: a lease that has been idle for more than this many failover times is taken before the fair share is applied."""


class Sighting(Struct, frozen=True):
    """The lease, with this owner and counter, was first seen at `seen_at`."""

    lease_counter: int
    lease_owner: str | None
    seen_at: datetime
    is_unheard: bool = False
    """The owner has not been seen to write yet: it has just taken the lease, or a KCL 3.x leader has only named it."""
    moved_at: datetime | None = None
    """When the lease was first seen with another owner; None if that is longer ago than LATELY."""


def ahead_by(by_us: datetime, by_the_service: datetime | None) -> timedelta:
    """How far our clock is ahead of the service's; zero if that is not known. Processes read each other's sightings. If
    two clocks differ by a failover time, one process would take the other's sightings for that old, and steal leases
    from live owners.
    """
    if by_the_service is None or abs(by_us - by_the_service) <= CLOCK_RIGHT_WITHIN:
        return timedelta(0)
    return by_us - by_the_service


def observe(sightings: Mapping[str, Sighting], leases: Iterable[Lease], now: datetime) -> Mapping[str, Sighting]:
    """The sightings after this scan, by lease key. Sightings of deleted leases are dropped.

    As in KCL's lease taker. A lease that has had no owner since it was first seen gets no sighting: it was never
    heartbeat, and `idle_time` makes it idle for ever. A lease that is released while we watch does get one, and so does
    one whose owners crash, since it may need a pause. A sighting in the future, by a clock that was ahead, becomes one
    of now; otherwise its owner's death would not be noticed until then.
    """
    seen: dict[str, Sighting] = {}
    for lease in leases:
        before, owner = sightings.get(lease.lease_key), lease.actual_owner
        if before is not None and _is_current(before, lease):
            seen[lease.lease_key] = before if before.seen_at <= now else replace(before, seen_at=now)
        elif before is not None or owner is not None or lease.crashes:
            is_same = before is not None and before.lease_owner == owner
            is_new = owner is not None and not is_same
            moved_at = now if is_new and before is not None and before.lease_owner else _lately(before, now)
            seen[lease.lease_key] = Sighting(lease.lease_counter, owner, now, is_new, moved_at)
    return seen


def _lately(before: Sighting | None, now: datetime) -> datetime | None:
    """When the lease moved, unless that is long ago. A lease that was released and then taken has not moved: it was
    free in between.
    """
    if before is None or before.moved_at is None:
        return None
    return before.moved_at if now - before.moved_at < LATELY else None


def with_own(
    sightings: Mapping[str, Sighting],
    own: Mapping[str, Sighting],
    leases: Iterable[Lease],
    now: datetime,
    longer_than: timedelta,
) -> Mapping[str, Sighting]:
    """Adds this process' own sightings of leases that it has seen stand still for longer than `longer_than`, if no
    older sighting is stored. A younger one would only say when the process began to look.
    """
    found = dict(sightings)
    for lease in leases:
        ours, stored = own.get(lease.lease_key), sightings.get(lease.lease_key)
        if ours is None or not _is_current(ours, lease) or now - ours.seen_at <= longer_than:
            continue
        if stored is None or not _is_current(stored, lease):
            found[lease.lease_key] = ours
    return found


def idle_time(lease: Lease, sightings: Mapping[str, Sighting], now: datetime) -> timedelta:
    """How long the counter is known to have stood still.

    Without a sighting: zero if the lease has an owner, who may be alive, and timedelta.max if it has none (KCL: never
    renewed, at once very old). Never negative, even if another lease manager's clock was ahead.
    """
    sighting = sightings.get(lease.lease_key)
    if sighting is None:
        return timedelta.max if lease.actual_owner is None else timedelta(0)
    return max(now - sighting.seen_at, timedelta(0)) if _is_current(sighting, lease) else timedelta(0)


def is_expired(lease: Lease, sightings: Mapping[str, Sighting], now: datetime, failover_time: timedelta) -> bool:
    """Whether the lease has a holder that has written no heartbeat for more than `failover_time`.

    KCL: at exactly that time the holder is alive. In a KCL 3.x handoff the holder is the old owner until it has
    drained.
    """
    return lease.actual_owner is not None and idle_time(lease, sightings, now) > failover_time


def next_expiry(
    leases: Iterable[Lease], sightings: Mapping[str, Sighting], now: datetime, failover_time: timedelta
) -> datetime | None:
    """When the first silent owner counts as lost, unless it writes before then."""
    seen = (
        sightings[lease.lease_key].seen_at
        for lease in leases
        if not lease.is_ended and lease.actual_owner is not None and lease.lease_key in sightings
    )
    first = min((at for at in seen if now - failover_time <= at < now), default=None)
    return None if first is None else first + failover_time + timedelta.resolution


def is_very_old(lease: Lease, sightings: Mapping[str, Sighting], now: datetime, failover_time: timedelta) -> bool:
    """Whether the lease, owned or not, has been idle for more than (KCL: not exactly) three failover times."""
    return idle_time(lease, sightings, now) > VERY_OLD * failover_time


def has_moved(lease: Lease, sightings: Mapping[str, Sighting]) -> bool:
    """Whether the lease was written to since it was last sighted. False for a lease that has no owner and was never
    sighted.
    """
    sighting = sightings.get(lease.lease_key)
    return lease.actual_owner is not None if sighting is None else not _is_current(sighting, lease)


def _is_current(sighting: Sighting, lease: Lease) -> bool:
    return sighting.lease_counter == lease.lease_counter and sighting.lease_owner == lease.actual_owner
