"""Whether a KCL 3.x leader assigns the leases, and what we report to it.

Workers of KCL 2.x, kcl-rs and sublet take leases for themselves, and steal. In a KCL 3.x fleet one worker assigns all
leases, and Java's workers take none: a worker that stole there would take from workers that never take back. So we
decide by the reports that each worker of such a fleet writes every 30 s. A fleet that has stopped no longer counts
after a minute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from sublet.protocol.lease import Lease
from sublet.protocol.worker_report import ASSIGNING_VERSIONS, ReportPlace, WorkerReport
from sublet.settings import KclFleet, Mode, Settings

REPORTED_EVERY = timedelta(seconds=30)
"""KCL's `workerMetricsReporterFreqInMillis`."""

FORGOTTEN_AFTER = 2 * REPORTED_EVERY
"""In KCL a report of exactly this age is alive."""

DUE_AFTER = REPORTED_EVERY - timedelta(seconds=5)
"""The next tick renews a report of this age. So it is never late because the tick and report intervals are out of
step.
"""

NOT_HEARD_OF_FOR = 2
"""A silent owner that a KCL 3.x leader has only named counts as lost after this many failover times. A worker looks for
newly assigned leases once per failover time, and its leader checks again after two.
"""


class FleetKind(StrEnum):
    """Which side decides which worker gets which lease."""

    EACH_FOR_ITSELF = "each_for_itself"
    """We alone, or beside KCL 2.x: workers take free and expired leases, and steal for the fair share."""
    LED = "led"
    """A KCL 3.x leader assigns them to the workers that report."""


class Fleet(Struct, frozen=True):
    """`members`: worker ids other than ours that the leader assigns leases to. `place`: where our worker ids report;
    None: nowhere.
    """

    kind: FleetKind = FleetKind.EACH_FOR_ITSELF
    members: frozenset[str] = frozenset()
    place: ReportPlace | None = None
    joining: frozenset[str] = frozenset()
    """Other worker ids that have just announced that they join: they count as workers before they hold anything."""

    @property
    def is_led(self) -> bool:
        return self.kind is FleetKind.LED


NO_LEADER = Fleet()


class ReportPlan(Struct, frozen=True):
    """Reports of our own worker ids to write and to delete."""

    make: tuple[WorkerReport, ...] = ()
    remove: tuple[WorkerReport, ...] = ()


def fleet_of(
    reports: Iterable[WorkerReport],
    client_version: str | None,
    own_worker_ids: Collection[str],
    now: datetime,
    settings: Settings,
) -> Fleet:
    """The fleet's kind, from its reports. If any worker reports in the lease table, we do too, since the application is
    migrating to KCL 3.5's single table. If no other worker reports, we do not either: a row that is not a lease stops
    every KCL before 3.5.

    While a fleet migrates from 2.x to 3.x, workers report for some time before a leader assigns: it waits until all
    lease holders report. We then report too, and take and steal as before.
    """
    others = [report for report in reports if report.worker_id not in own_worker_ids and is_alive(report, now)]
    places = {report.place for report in others}
    place = next((place for place in (ReportPlace.LEASE_TABLE, ReportPlace.OWN_TABLE) if place in places), None)
    if settings.kcl_fleet is KclFleet.V2:
        return NO_LEADER
    assigns = bool(others) and (client_version is None or client_version in ASSIGNING_VERSIONS)
    if settings.kcl_fleet is KclFleet.V3 or assigns:
        return Fleet(FleetKind.LED, frozenset(report.worker_id for report in others), place)
    return Fleet(place=place)


def is_alive(report: WorkerReport, now: datetime) -> bool:
    """A report from the far future, by a clock that was ahead, is not alive: it would keep a share of the leases
    unassigned.
    """
    return abs(now - report.reported_at) <= FORGOTTEN_AFTER


def is_due(report: WorkerReport | None, now: datetime) -> bool:
    """A report from the future, by a clock that was ahead, is due as well."""
    return report is None or abs(now - report.reported_at) >= DUE_AFTER


def plan_reports(fleet: Fleet, reports: Iterable[WorkerReport], now: datetime, settings: Settings) -> ReportPlan:
    """The reports of one tick. If leases are not kept from window to window, nothing is reported: leases assigned
    between two windows would lie idle.
    """
    ours = [report for report in reports if report.worker_id in settings.own_worker_ids]
    reporting = fleet.place if settings.mode is Mode.CONTINUOUS else None
    stands = {report.worker_id: report for report in ours if report.place is reporting}
    due = (
        ()
        if reporting is None
        else tuple(
            WorkerReport(worker_id, now, reporting)
            for worker_id in settings.own_worker_ids
            if is_due(stands.get(worker_id), now)
        )
    )
    return ReportPlan(due, tuple(report for report in ours if report.place is not reporting))


def given_to(lease: Lease, own_worker_ids: Collection[str], fleet: Fleet) -> str | None:
    """The worker id of ours to which a leader has assigned the lease, if none of our windows has written to it
    since.
    """
    if not fleet.is_led or lease.lease_owner not in own_worker_ids:
        return None
    is_taken_up = lease.checkpoint_owner is not None or lease.held_by is not None
    return None if is_taken_up else lease.lease_owner
