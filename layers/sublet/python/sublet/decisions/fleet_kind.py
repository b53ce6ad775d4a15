"""Whether a KCL 3.x leader shares out the leases, and what we tell it of ourselves.

Workers of KCL 2.x, kcl-rs and sublet take leases each for itself, and steal. In a KCL 3.x fleet one worker assigns all leases,
and Java's workers take none: who steals there takes from those who will never take back. So the fleet's own reports decide, of
which each worker makes one every 30 s; a fleet that has been stopped is none after a minute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from sublet.protocol.lease import Lease
from sublet.protocol.worker_report import ASSIGNING_VERSIONS, Place, WorkerReport
from sublet.settings import KclFleet, Mode, Settings

REPORTED_EVERY = timedelta(seconds=30)
"""KCL's `workerMetricsReporterFreqInMillis`."""

FORGOTTEN_AFTER = 2 * REPORTED_EVERY
"""KCL: exactly that long ago is alive."""

DUE_AFTER = REPORTED_EVERY - timedelta(seconds=5)
"""A report this old is made anew by whoever looks, so that it is not late because two of our clocks beat out of step."""

NOT_HEARD_OF_FOR = 2
"""Failover times until a worker of a KCL 3.x fleet that has been named owner counts as lost if it does not write: it asks for new
leases of its own once a failover time, and its leader looks again after two."""


class FleetKind(StrEnum):
    """Who decides which worker gets which lease."""

    EACH_FOR_ITSELF = "each_for_itself"
    """We alone, or beside KCL 2.x: free and expired leases are taken, and others stolen for the fair share."""
    LED = "led"
    """A KCL 3.x leader assigns them, to the workers that report."""


class Fleet(Struct, frozen=True):
    """`members`: worker ids besides ours that its leader assigns leases to. `place`: where ours are to report; None: nowhere."""

    kind: FleetKind = FleetKind.EACH_FOR_ITSELF
    members: frozenset[str] = frozenset()
    place: Place | None = None
    joining: frozenset[str] = frozenset()
    """Worker ids of others that have just said that they join: they count as workers before they hold anything."""

    @property
    def is_led(self) -> bool:
        return self.kind is FleetKind.LED


NO_LEADER = Fleet()


class ReportPlan(Struct, frozen=True):
    """Reports of our own worker ids: to be made, and to be taken away."""

    make: tuple[WorkerReport, ...] = ()
    remove: tuple[WorkerReport, ...] = ()


def fleet_of(
    reports: Iterable[WorkerReport],
    client_version: str | None,
    own_worker_ids: Collection[str],
    now: datetime,
    settings: Settings,
) -> Fleet:
    """Where one reports in the lease table all will: the application migrates to KCL 3.5's single table. Where nobody else does
    we do not either: in the lease table a row that is no lease stops every KCL before 3.5.

    A fleet that goes from 2.x to 3.x reports for some time before a leader assigns: it waits for all who hold leases to report.
    So we do, and take and steal as before.
    """
    others = [
        report for report in reports if report.worker_id not in own_worker_ids and is_alive(report, now)
    ]
    places = {report.place for report in others}
    place = next((place for place in (Place.LEASE_TABLE, Place.OWN_TABLE) if place in places), None)
    if settings.kcl_fleet is KclFleet.V2:
        return NO_LEADER
    assigns = bool(others) and (client_version is None or client_version in ASSIGNING_VERSIONS)
    if settings.kcl_fleet is KclFleet.V3 or assigns:
        return Fleet(FleetKind.LED, frozenset(report.worker_id for report in others), place)
    return Fleet(place=place)


def is_alive(report: WorkerReport, now: datetime) -> bool:
    """One from the far future, by a clock that was ahead, would hold its share for nobody until then."""
    return abs(now - report.reported_at) <= FORGOTTEN_AFTER


def is_due(report: WorkerReport | None, now: datetime) -> bool:
    """A report from the future, by a clock that was ahead, is due as well."""
    return report is None or abs(now - report.reported_at) >= DUE_AFTER


def plan_reports(
    fleet: Fleet, reports: Iterable[WorkerReport], now: datetime, settings: Settings
) -> ReportPlan:
    """By a tick. Where leases are not kept from window to window nothing is reported: what a leader assigned between two windows
    would lie idle.
    """
    ours = [report for report in reports if report.worker_id in settings.own_worker_ids]
    reporting = fleet.place if settings.mode is Mode.CONTINUOUS else None
    stands = {report.worker_id: report for report in ours if report.place is reporting}
    due = () if reporting is None else tuple(
        WorkerReport(worker_id, now, reporting)
        for worker_id in settings.own_worker_ids
        if is_due(stands.get(worker_id), now)
    )  # fmt: skip
    return ReportPlan(due, tuple(report for report in ours if report.place is not reporting))


def given_to(lease: Lease, own_worker_ids: Collection[str], fleet: Fleet) -> str | None:
    """Which of ours a leader has named for it, if no window of ours has written since."""
    if not fleet.is_led or lease.lease_owner not in own_worker_ids:
        return None
    is_taken_up = lease.checkpoint_owner is not None or lease.held_by is not None
    return None if is_taken_up else lease.lease_owner
