"""Sorts a lease table's rows by kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sublet.protocol.lease import AttributeValue, Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_row import LEASE_KEY, decode_row, is_multi_stream
from sublet.protocol.worker_report import Place, WorkerReport, client_version_in, decode_report


def scan_of(items: Iterable[Mapping[str, AttributeValue]]) -> LeaseScan:
    """Entities of KCL 3.5 other than leases and reports are left out."""
    leases: list[Lease] = []
    malformed: list[MalformedRow] = []
    multi_stream: list[str] = []
    reports: list[WorkerReport] = []
    client_version: str | None = None
    for item in items:
        match decode_row(item):
            case Lease() as lease:
                leases.append(lease)
            case MalformedRow() as row:
                malformed.append(row)
            case None if is_multi_stream(item):
                multi_stream.append(item[LEASE_KEY]["S"])
            case None:
                report = decode_report(item, Place.LEASE_TABLE)
                reports += [] if report is None else [report]
                client_version = client_version or client_version_in(item)
    return LeaseScan(tuple(leases), tuple(malformed), tuple(multi_stream), tuple(reports), client_version)
