"""The other workers, without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sublet.decisions.manager.packing import WorkerItem
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


class MemoryDispatcher:
    """The Dispatcher port. `items`: dispatched and not yet taken, in order."""

    def __init__(self) -> None:
        self.items: list[WorkerItem] = []

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        self.items.extend(items)

    def take(self) -> list[WorkerItem]:
        """Return the waiting items and forget them."""
        taken, self.items = self.items, []
        return taken


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
