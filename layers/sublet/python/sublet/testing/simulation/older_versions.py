"""Workers and lease managers of earlier versions beside ours, as during a rollout or rollback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from msgspec.structs import replace as replaced

from sublet.ports import Applied, LeaseTable, Refused
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite, WriteKind


class Version(StrEnum):
    NOW = "now"
    V0_2 = "0.2"
    V0_1 = "0.1"


UNKNOWN: Mapping[Version, frozenset[str]] = {
    Version.NOW: frozenset(),
    Version.V0_2: frozenset(
        {
            attributes.QUIET,
            attributes.LAG,
            attributes.SEEN,
            attributes.AHEAD,
            attributes.CRASHED_AT,
            attributes.FAILING,
            attributes.UNANSWERED,
        }
    ),
    Version.V0_1: frozenset(
        {
            attributes.QUIET,
            attributes.LAG,
            attributes.SEEN,
            attributes.UNANSWERED,
            attributes.HOLDER_COUNTER,
            *attributes.TROUBLES,
        }
    ),
}
"""Our attributes that a version neither reads, writes nor removes."""

NOTHING_TRIED = "0@"


@dataclass(frozen=True, slots=True)
class OlderTable:
    """The LeaseTable port as earlier versions use it."""

    real: LeaseTable
    version: Version = Version.V0_2

    def scan(self) -> LeaseScan:
        scan = self.real.scan()
        return replaced(scan, leases=tuple(map(self._as_known, scan.leases)))

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self._read(self.real.get(lease_key))

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        result = self.real.apply(as_written(write, self.version))
        if isinstance(result, Applied):
            return Applied(self._as_known(result.lease))
        return Refused(self._read(result.row))

    def _read(self, row: Lease | MalformedRow | None) -> Lease | MalformedRow | None:
        return self._as_known(row) if isinstance(row, Lease) else row

    def _as_known(self, lease: Lease) -> Lease:
        known = replace(
            lease,
            quiet=None,
            lag_report=None,
            lag_history=(),
            failing=None,
            noted_ahead=None,
            noted_ahead_counter=None,
        )
        if self.version is not Version.V0_1:
            return known
        return replace(known, holder_counter=None, crashes=0, attempts=0, tried=None)


def as_written(write: LeaseWrite, version: Version) -> LeaseWrite:
    """The write as the version makes it: 0.2 increments the count of crashes without reading it, and its checkpoints
    remove attempts, which ours may keep beside what is finished ahead.
    """
    unknown = UNKNOWN[version]
    sets = {name: value for name, value in write.sets.items() if name not in unknown}
    removes = {name for name in write.removes if name not in unknown}
    adds = dict(write.adds)
    if attributes.AHEAD in write.sets and attributes.ATTEMPTS in sets:
        tried = str(sets[attributes.ATTEMPTS]["S"])
        if tried.startswith(NOTHING_TRIED) and ".." not in tried:
            del sets[attributes.ATTEMPTS]
        if attributes.CHECKPOINT in sets:
            sets.pop(attributes.ATTEMPTS, None)
            removes.add(attributes.ATTEMPTS)
    if write.kind is WriteKind.ACQUIRE and sets.pop(attributes.CRASHES, None) is not None:
        adds[attributes.CRASHES] = 1
    return replace(write, sets=sets, adds=adds, removes=tuple(sorted(removes)))


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Which version is deployed when. Running processes stay as they are.

    changes  (microseconds, version), the first at 0
    mixed    the probability that a new process still has the previous version: a rollout worker by worker
    """

    changes: tuple[tuple[int, Version], ...]
    mixed: float = 0

    def version_of(self, now: int, chance: Random) -> Version:
        so_far = [version for at, version in self.changes if at <= now]
        return so_far[-2] if len(so_far) > 1 and chance.random() < self.mixed else so_far[-1]


def draw_rollouts(chance: Random, until: int) -> Rollouts:
    """Back and forth, up to five times, under load; any version may be the last."""
    moments = sorted(int(chance.uniform(0, until)) for _ in range(chance.choice((1, 2, 3, 5))))
    versions = [chance.choice(list(Version))]
    for _ in moments:
        versions.append(chance.choice([version for version in Version if version is not versions[-1]]))
    return Rollouts(tuple(zip((0, *moments), versions, strict=True)), chance.choice((0, 0, 0.5)))
