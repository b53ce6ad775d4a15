"""What workers announce to each other, and report to the leader of a KCL 3.x fleet: each tick, and the windows between
ticks.

A failure here is logged, and the next report repairs it: no lease depends on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from sublet.decisions.manager.fleet_kind import ReportPlan, is_due
from sublet.decisions.manager.joins_and_drains import NOTHING_ANNOUNCED, Announcement, AnnouncementKind, long_lapsed
from sublet.errors import CallFailed
from sublet.ports import Ports, WorkerReports
from sublet.protocol.lease import LeaseScan
from sublet.protocol.worker_report import WorkerReport
from sublet.settings import KclFleet, Mode, Settings

T = TypeVar("T")


class ReportedFleet(NamedTuple):
    """All known reports, and KCL's client version (its lease rules) that the fleet has stored."""

    reports: tuple[WorkerReport, ...]
    client_version: str | None


def look_at_reports(scan: LeaseScan, ports: Ports, settings: Settings) -> ReportedFleet:
    """Reads the separate table of reports only if this application would report there, and no other worker uses the
    lease table for its reports.
    """
    known = ReportedFleet(scan.reports, scan.client_version)
    is_here = any(report.worker_id not in settings.own_worker_ids for report in scan.reports)
    if is_here or settings.mode is not Mode.CONTINUOUS or settings.kcl_fleet is KclFleet.V2:
        return known

    def look(reports: WorkerReports) -> ReportedFleet:
        elsewhere = reports.load()
        version = reports.client_version() if elsewhere else None
        return ReportedFleet((*scan.reports, *elsewhere), scan.client_version or version)

    return _with_reports(ports, look) or known


def make_reports(plan: ReportPlan, ports: Ports) -> None:
    """Writes and deletes the reports of a tick's plan."""

    def make(reports: WorkerReports) -> None:
        for report in plan.make:
            reports.put(report)
        for report in plan.remove:
            reports.remove(report)

    if plan.make or plan.remove:
        _with_reports(ports, make)


def renew_report(worker_id: str, ports: Ports) -> None:
    """A window renews its worker id's report, if a tick has made one. With several windows, the first that finds it due
    writes it, and the others have only read it.
    """

    def renew(reports: WorkerReports) -> None:
        report, now = reports.get(worker_id), ports.clock.now()
        if report is not None and is_due(report, now):
            reports.put(replace(report, reported_at=now))

    _with_reports(ports, renew)


def stop_reporting(worker_ids: Iterable[str], ports: Ports) -> None:
    """A process that ends on purpose calls this before it releases its leases. Otherwise KCL would go on assigning
    leases to it for a minute.
    """

    def stop(reports: WorkerReports) -> None:
        for worker_id in worker_ids:
            if (report := reports.get(worker_id)) is not None:
                reports.remove(report)

    _with_reports(ports, stop)


def _with_reports(ports: Ports, act: Callable[[WorkerReports], T]) -> T | None:
    if ports.reports is None:
        return None
    try:
        return act(ports.reports)
    except Exception as problem:  # noqa: BLE001 - it must end neither a tick nor a window
        ports.log.warning("could not report to KCL's leader", error=type(problem).__name__, problem=str(problem))
        return None


def announce(
    what: AnnouncementKind,
    ports: Ports,
    settings: Settings,
    announced: Mapping[str, Announcement] = NOTHING_ANNOUNCED,
) -> None:
    """Announces with one write, and deletes each of `announced` that lapsed long ago. A failure is only logged: the
    others see at their next tick how the leases have changed.
    """
    said = Announcement(what, ports.clock.now())
    try:
        for worker_id in settings.own_worker_ids:
            ports.sightings.announce(worker_id, said, long_lapsed(announced, said.at, settings))
    except CallFailed as problem:
        ports.log.warning("could not tell the other workers", what=what, problem=str(problem))
