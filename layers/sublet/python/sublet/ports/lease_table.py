"""KCL's lease table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
    from sublet.protocol.lease_writes import LeaseWrite


class Applied(Struct, frozen=True):
    """The write happened, and the row is now `lease`."""

    lease: Lease


class Refused(Struct, frozen=True):
    """A clause of the write's condition did not hold; nothing was changed. `row` is the row that refused it (None: no
    such row).
    """

    row: Lease | MalformedRow | None


class LeaseTable(Protocol):
    """KCL's lease table. Raises LeaseTableNotFound, LeaseTableKeyUnexpected, LeaseTableUnavailable."""

    def scan(self) -> LeaseScan:
        """All leases. Eventually consistent: a row may be missing or seconds old, never half-written."""

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        """One row, strongly consistent; None if there is none (or it is not a lease)."""

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        """Do one conditional write atomically. If the response is lost the write is retried, so our own write may come
        back Refused.
        """
