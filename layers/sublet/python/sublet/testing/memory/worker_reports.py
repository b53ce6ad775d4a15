"""Workers' reports in memory: rows of a MemoryLeaseTable, or of the separate table of KCL before 3.5."""

from __future__ import annotations

from dataclasses import dataclass, field

from sublet.protocol.conditions import Row
from sublet.protocol.worker_report import (
    KEY,
    ReportPlace,
    WorkerReport,
    client_version_in,
    decode_report,
    encode_report,
)
from sublet.testing.memory.lease_table import MemoryLeaseTable


@dataclass(slots=True)
class MemoryWorkerReports:
    """The WorkerReports port. `own_table`: by worker id; None: there is none. `state`: the fleet's, kept beside that
    table.
    """

    lease_table: MemoryLeaseTable
    own_table: dict[str, Row] | None = field(default_factory=dict)
    state: Row = field(default_factory=dict)

    def load(self) -> tuple[WorkerReport, ...]:
        reports = (decode_report(row, ReportPlace.OWN_TABLE) for row in list((self.own_table or {}).values()))
        return tuple(report for report in reports if report is not None)

    def client_version(self) -> str | None:
        return client_version_in(self.state)

    def get(self, worker_id: str) -> WorkerReport | None:
        in_lease_table = decode_report(self.lease_table.row(worker_id) or {}, ReportPlace.LEASE_TABLE)
        return in_lease_table or decode_report((self.own_table or {}).get(worker_id, {}), ReportPlace.OWN_TABLE)

    def put(self, report: WorkerReport) -> None:
        row = encode_report(report)
        if report.place is ReportPlace.LEASE_TABLE:
            self.lease_table.put_row(row)
        elif self.own_table is not None:
            self.own_table[row[KEY[report.place]]["S"]] = row

    def remove(self, report: WorkerReport) -> None:
        if report.place is ReportPlace.LEASE_TABLE:
            self.lease_table.delete_row(report.worker_id)
        elif self.own_table is not None:
            self.own_table.pop(report.worker_id, None)
