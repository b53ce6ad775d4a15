"""A lease table in memory: rows as DynamoDB holds them, written by the same LeaseWrite values."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from sublet.errors import LeaseTableNotFound
from sublet.ports import Applied, Refused
from sublet.protocol.conditions import Row
from sublet.protocol.lease import AttributeValue, Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_attributes import LEASE_KEY
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import LeaseWrite, apply_to
from sublet.protocol.table_scan import scan_of


class MemoryLeaseTable:
    """The LeaseTable port. Safe for threads. Scans see every write at once; DynamoDB promises less. `several`: see
    `scan_of`.
    """

    def __init__(self, leases: Iterable[Lease] = (), *, several: bool | None = False) -> None:
        self._several = several
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, AttributeValue]] = {}
        self._is_deleted = False
        for lease in leases:
            self.put_row(encode_row(lease))

    def scan(self) -> LeaseScan:
        with self._lock:
            self._check_exists()
            rows = list(self._rows.values())
        return scan_of(rows, several=self._several)

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        with self._lock:
            self._check_exists()
            row = self._rows.get(lease_key)
        return None if row is None else decode_row(row)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        with self._lock:
            self._check_exists()
            before = self._rows.get(write.lease_key)
            after = apply_to(write, before)
            if after is None:
                return Refused(None if before is None else decode_row(before))
            if after:
                self._rows[write.lease_key] = after
            else:
                del self._rows[write.lease_key]
        lease = decode_row(after or before or {})
        return Applied(lease) if isinstance(lease, Lease) else Refused(lease)

    def delete(self) -> None:
        """Delete the table: every later call raises LeaseTableNotFound."""
        with self._lock:
            self._rows.clear()
            self._is_deleted = True

    def _check_exists(self) -> None:
        if self._is_deleted:
            raise LeaseTableNotFound("the lease table has been deleted")

    def put_row(self, row: Row) -> None:
        """Put a row unconditionally: another consumer's, another entity's, or a malformed one."""
        with self._lock:
            self._rows[row[LEASE_KEY]["S"]] = dict(row)

    def row(self, lease_key: str) -> Row | None:
        with self._lock:
            row = self._rows.get(lease_key)
            return None if row is None else dict(row)

    def delete_row(self, lease_key: str) -> Row | None:
        """Delete unconditionally, as an operator does. Returns the row."""
        with self._lock:
            return self._rows.pop(lease_key, None)

    def rows(self) -> Mapping[str, Row]:
        """Every row by lease key, foreign and malformed ones included."""
        with self._lock:
            return {lease_key: dict(row) for lease_key, row in self._rows.items()}
