"""A lease table that from some moment on refuses all that it is asked."""

from __future__ import annotations

from dataclasses import dataclass

from sublet.errors import LeaseTableError
from sublet.ports import Applied, LeaseTable, Refused
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite


@dataclass(slots=True)
class RefusingTable:
    """A program's way to the lease table. One that is killed never gets through again: nothing that it does is seen."""

    table: LeaseTable
    error: LeaseTableError
    refuses: bool = False

    def scan(self) -> LeaseScan:
        self._check()
        return self.table.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        self._check()
        return self.table.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        self._check()
        return self.table.apply(write)

    def _check(self) -> None:
        if self.refuses:
            raise self.error
