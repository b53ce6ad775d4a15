"""Workers of version 0.2 beside ours, as in a deployment that is rolled out, or back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec.structs import replace as replaced

from sublet.ports import Applied, LeaseTable, Refused
from sublet.protocol import lease_row as columns
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite

UNKNOWN = frozenset({columns.QUIET, columns.AHEAD})


@dataclass(frozen=True, slots=True)
class OlderTable:
    """The LeaseTable port as they use it: attributes that they do not know are neither read nor written, nor taken away."""

    real: LeaseTable

    def scan(self) -> LeaseScan:
        scan = self.real.scan()
        return replaced(scan, leases=tuple(map(_as_known, scan.leases)))

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return _read(self.real.get(lease_key))

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        sets = {name: value for name, value in write.sets.items() if name not in UNKNOWN}
        removes = tuple(name for name in write.removes if name not in UNKNOWN)
        result = self.real.apply(replace(write, sets=sets, removes=removes))
        if isinstance(result, Applied):
            return Applied(_as_known(result.lease))
        return Refused(_read(result.row))


def _read(row: Lease | MalformedRow | None) -> Lease | MalformedRow | None:
    return _as_known(row) if isinstance(row, Lease) else row


def _as_known(lease: Lease) -> Lease:
    return replace(lease, quiet=None, noted_ahead=None, noted_ahead_counter=None)
