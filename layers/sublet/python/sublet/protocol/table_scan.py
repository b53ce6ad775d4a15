"""Sorts a lease table's rows by kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from sublet.protocol.lease import AttributeValue, Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_row import decode_row
from sublet.protocol.stream_key import is_of_several
from sublet.protocol.worker_report import ReportPlace, WorkerReport, client_version_in, decode_report

NEVER = datetime.min.replace(tzinfo=UTC)


def scan_of(items: Iterable[Mapping[str, AttributeValue]], *, several: bool | None = False) -> LeaseScan:
    """Entities of KCL 3.5 other than leases and reports are left out.

    several  whether the application reads several streams. The scan only names leases of the other kind: they belong to
             another application, and would look like garbage. None: find out from the leases
    """
    leases: list[Lease | MalformedRow] = []
    reports: list[WorkerReport] = []
    client_version: str | None = None
    for item in items:
        found = decode_row(item)
        if found is not None:
            leases.append(found)
            continue
        report = decode_report(item, ReportPlace.LEASE_TABLE)
        reports += [] if report is None else [report]
        client_version = client_version or client_version_in(item)
    if several is None:
        several = _reads_several(leases)
    return replace(of_kind(leases, several=several), reports=tuple(reports), client_version=client_version)


def _reads_several(found: Sequence[Lease | MalformedRow]) -> bool:
    """Whether an application, whose settings are not known, reads several streams. A change between `stream` and
    `streams` leaves the old leases in the table. The leases in use are those to which an owner has written last, as far
    as the rows say it; otherwise those with more owners.
    """
    of_several = [row for row in found if is_of_several(row.lease_key)]
    of_one = [row for row in found if not is_of_several(row.lease_key)]
    if not of_several or not of_one:
        return bool(of_several)
    return _use(of_several) > _use(of_one)


def _use(rows: Iterable[Lease | MalformedRow]) -> tuple[datetime, int]:
    """Returns when an owner last wrote to any of them, and how many have an owner."""
    leases = [row for row in rows if isinstance(row, Lease)]
    written = (lease.reported_at for lease in leases)
    last = max((at for at in written if at is not None), default=NEVER)
    return last, sum(lease.actual_owner is not None for lease in leases)


def of_kind(found: Iterable[Lease | MalformedRow], *, several: bool) -> LeaseScan:
    """The leases of an application of several streams, or of one, and the others."""
    rows = tuple(found)
    own = [row for row in rows if is_of_several(row.lease_key) is several]
    theirs = [row for row in rows if is_of_several(row.lease_key) is not several]
    others = tuple(row.lease_key for row in theirs)
    return LeaseScan(
        tuple(row for row in own if isinstance(row, Lease)),
        tuple(row for row in own if isinstance(row, MalformedRow)),
        () if several else others,
        single_stream=others if several else (),
        other_kind=tuple(row for row in theirs if isinstance(row, Lease)),
    )
