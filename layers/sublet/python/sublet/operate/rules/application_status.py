"""The applications of an account at a glance: for each, how many shards, the worst status, its owners, and its last
write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.shard_status import WORST_FIRST
from sublet.decisions.status.status_rules import Status
from sublet.protocol.lease import Lease


@dataclass(frozen=True, slots=True)
class ApplicationStatus:
    """
    status      None if its lease table cannot be read
    stream      its ARN, as its lease managers know it; None if they do not, as for a Java KCL's
    last_write  the last known time at which a lease was written to; None if no time is known
    problem     why something about the application is not known
    """

    name: str
    status: FleetStatus | None = None
    stream: str | None = None
    last_write: datetime | None = None
    problem: str | None = None

    @property
    def worst_status(self) -> Status | None:
        """The status of its worst shard; None if it has no shards, or cannot be read."""
        words = () if self.status is None else self.status.statuses
        return min(words, key=WORST_FIRST.index, default=None)

    @property
    def is_bad(self) -> bool:
        """Whether an operator should look at it."""
        return self.status is None or self.status.is_bad


def last_write(leases: Iterable[Lease], sightings: Mapping[str, Sighting]) -> datetime | None:
    """Returns the last known time at which a lease was written to: from the reports that owners of ours have left in
    the rows, and from when ticks first saw each row as it is.
    """
    left = [lease.reported_at for lease in leases]
    seen = [sighting.seen_at for sighting in sightings.values()]
    return max((at for at in (*left, *seen) if at is not None), default=None)


def worst_applications_first(found: Iterable[ApplicationStatus]) -> list[ApplicationStatus]:
    """Sorts applications: first those that cannot be read, then by the worst status, then by name."""

    def badness(one: ApplicationStatus) -> tuple[int, int, str]:
        worst = one.worst_status
        return (not one.is_bad, -1 if worst is None else WORST_FIRST.index(worst), one.name)

    return sorted(found, key=badness)
