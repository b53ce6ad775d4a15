"""The other workers: those that a tick starts, and those of a KCL 3.x fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sublet.decisions.manager.packing import WorkerItem
    from sublet.protocol.worker_report import WorkerReport


class WorkerReports(Protocol):
    """The reports by which workers of a KCL 3.x fleet show its leader that they are alive. Raises what LeaseTable
    raises.

    Reports in the lease table come with its scan; others are in a separate table, which need not exist.
    """

    def load(self) -> tuple[WorkerReport, ...]:
        """All reports of the separate table; none if there is no such table, or we may not read it."""

    def client_version(self) -> str | None:
        """The version by whose rules the fleet works. It is stored beside that table; None if it is missing or we may
        not read it.
        """

    def get(self, worker_id: str) -> WorkerReport | None:
        """A worker's report: from the lease table, or else from the separate table."""

    def put(self, report: WorkerReport) -> None:
        """Replace the worker's report in its table. Call this only if other workers report: see
        decisions.manager.fleet_kind.
        """

    def remove(self, report: WorkerReport) -> None:
        """Delete the report from its table, if it is there."""


class Dispatcher(Protocol):
    """Starts lease workers."""

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        """Start one lease worker per item, at least once each, and return without waiting for them."""
