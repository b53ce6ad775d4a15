"""Whether a KCL 3.x leader assigns the leases, and when we report to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.fleet_kind import (
    NO_LEADER,
    Fleet,
    FleetKind,
    ReportPlan,
    fleet_of,
    is_due,
    plan_reports,
)
from sublet.protocol.worker_report import ReportPlace, WorkerReport
from sublet.settings import KclFleet, Mode, Settings
from sublet.testing.memory.clock import BEGINNING

NOW = BEGINNING
SETTINGS = Settings(application="orders", stream="events", worker_id="sublet-1", mode=Mode.CONTINUOUS)


def report(worker_id: str, ago: int, place: ReportPlace = ReportPlace.LEASE_TABLE) -> WorkerReport:
    return WorkerReport(worker_id, NOW - timedelta(seconds=ago), place)


def kind_of(*reports: WorkerReport, settings: Settings = SETTINGS, version: str | None = "CLIENT_VERSION_3X") -> Fleet:
    return fleet_of(reports, version, settings.own_worker_ids, NOW, settings)


def test_fleet_without_reports_has_no_leader() -> None:
    assert kind_of() == NO_LEADER


def test_report_of_our_own_makes_no_fleet() -> None:
    assert kind_of(report("sublet-1", 5)) == NO_LEADER


@pytest.mark.parametrize(("ago", "kind"), [(60, FleetKind.LED), (61, FleetKind.EACH_FOR_ITSELF)])
def test_fleet_exists_while_kcl_takes_its_report_for_alive(ago: int, kind: FleetKind) -> None:
    assert kind_of(report("java-1", ago)).kind is kind


@pytest.mark.parametrize("place", ReportPlace)
def test_we_report_where_the_others_do(place: ReportPlace) -> None:
    assert kind_of(report("java-1", 5, place)) == Fleet(FleetKind.LED, frozenset({"java-1"}), place)


def test_a_fleet_that_migrates_to_a_single_table_has_us_there_at_once() -> None:
    old, new = report("java-1", 5, ReportPlace.OWN_TABLE), report("java-2", 5)
    assert kind_of(old, new).place is ReportPlace.LEASE_TABLE


@pytest.mark.parametrize("version", ["CLIENT_VERSION_2X", "CLIENT_VERSION_UPGRADE_FROM_2X", "CLIENT_VERSION_INIT"])
def test_fleet_migrating_to_kcl_3_gets_reports_and_no_leader(version: str) -> None:
    """KCL goes on once all who hold leases have reported for ten minutes."""
    reports = [report("java-1", 5, ReportPlace.OWN_TABLE)]
    assert kind_of(*reports, version=version) == Fleet(place=ReportPlace.OWN_TABLE)


@pytest.mark.parametrize("version", ["CLIENT_VERSION_3X_WITH_ROLLBACK", None])
def test_fleet_of_reporting_workers_is_led(version: str | None) -> None:
    """None: we may not read it."""
    assert kind_of(report("java-1", 5), version=version).is_led


@pytest.mark.parametrize(
    ("setting", "reports", "expected"),
    [
        (KclFleet.V2, [report("java-1", 5)], NO_LEADER),
        (KclFleet.V3, [], Fleet(FleetKind.LED)),
        (KclFleet.V3, [report("java-1", 99)], Fleet(FleetKind.LED)),
    ],
)
def test_a_setting_counts_for_more_than_the_table(
    setting: KclFleet, reports: list[WorkerReport], expected: Fleet
) -> None:
    assert kind_of(*reports, settings=replace(SETTINGS, kcl_fleet=setting)) == expected


@pytest.mark.parametrize(("ago", "due"), [(24, False), (25, True), (-24, False), (-25, True)])
def test_a_report_is_due_before_it_is_late(ago: int, due: bool) -> None:
    assert is_due(report("sublet-1", ago), NOW) is due


def plan(
    *ours: WorkerReport, place: ReportPlace | None = ReportPlace.LEASE_TABLE, settings: Settings = SETTINGS
) -> ReportPlan:
    fleet = Fleet(FleetKind.LED, frozenset({"java-1"}), place)
    return plan_reports(fleet, [report("java-1", 5), *ours], NOW, settings)


def test_each_of_our_worker_ids_reports_when_it_is_due() -> None:
    settings = replace(SETTINGS, worker_id=None, worker_count=2)
    assert plan(report("orders-lambda-0", 5), settings=settings) == ReportPlan((report("orders-lambda-1", 0),))
    assert plan(report("orders-lambda-0", 25), report("orders-lambda-1", 5), settings=settings) == ReportPlan(
        (report("orders-lambda-0", 0),)
    )


def test_a_report_in_another_place_is_taken_away() -> None:
    stale = report("sublet-1", 5, ReportPlace.OWN_TABLE)
    assert plan(stale) == ReportPlan((report("sublet-1", 0),), (stale,))


def test_nowhere_to_report_to() -> None:
    assert plan(report("sublet-1", 5), place=None) == ReportPlan(remove=(report("sublet-1", 5),))


def test_catch_up_mode_removes_its_report() -> None:
    settings = replace(SETTINGS, mode=Mode.CATCH_UP)
    assert plan(report("sublet-1", 5), settings=settings) == ReportPlan(remove=(report("sublet-1", 5),))
