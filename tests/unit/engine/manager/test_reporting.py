"""Reports to a KCL 3.x leader, and what it does with them: made by ticks and windows, kept apart from whatever else
they do.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sublet.decisions.manager.fleet_kind import FleetKind, ReportPlan
from sublet.engine.manager.worker_reports import look_at_reports, make_reports, renew_report, stop_reporting
from sublet.protocol.aggregation import aggregate
from sublet.protocol.lease import LeaseScan
from sublet.protocol.worker_report import ReportPlace, WorkerReport
from sublet.settings import KclFleet, Mode, Settings
from sublet.testing.memory import MemoryWorkerReports
from sublet.testing.memory.clock import BEGINNING

from tests.doubles.engine_world import CONTINUOUS, SHARD, EngineWorld

SECOND = timedelta(seconds=1)
JAVA = WorkerReport("java-1", BEGINNING, ReportPlace.LEASE_TABLE)
IN_OWN_TABLE = WorkerReport("java-1", BEGINNING, ReportPlace.OWN_TABLE)
OURS = WorkerReport("orders-lambda-0", BEGINNING, ReportPlace.LEASE_TABLE)


def world_with(*standing: WorkerReport) -> tuple[EngineWorld, MemoryWorkerReports]:
    world = EngineWorld(CONTINUOUS)
    reports = MemoryWorkerReports(world.table.real)
    for report in standing:
        reports.put(report)
    world.reports = reports
    return world, reports


def test_a_tick_beside_a_fleet_reports_and_steals_nothing() -> None:
    world, reports = world_with(JAVA)
    world.put("a")
    world.change_lease(lease_owner="java-1")
    assert world.manager().tick().fleet is FleetKind.LED
    assert reports.get("orders-lambda-0") == OURS
    assert world.dispatcher.items == []


def test_lease_assigned_by_a_kcl_leader_is_dispatched_by_the_next_tick() -> None:
    world, _ = world_with(JAVA)
    world.put("a")
    world.change_lease(lease_owner="orders-lambda-0", lease_counter=41, holder="item/1", holder_counter=17)
    world.manager().tick()
    (item,) = world.dispatcher.items
    assert [(claim.lease_key, claim.why.value) for claim in item.claims] == [(SHARD, "assigned")]


class Broken:
    """No table, and an unplanned error."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no such service")


def test_a_failed_report_is_logged_and_ends_nothing() -> None:
    world = EngineWorld(CONTINUOUS)
    world.reports = Broken()
    ports = world.ports
    assert look_at_reports(LeaseScan(()), ports, CONTINUOUS).reports == ()
    make_reports(ReportPlan((OURS,)), ports)
    stop_reporting(["orders-lambda-0"], ports)
    assert len([line for line in world.log.lines if line.message == "could not report to KCL's leader"]) == 3


def looked_at(settings: Settings, *in_lease_table: WorkerReport) -> tuple[WorkerReport, ...]:
    world, _ = world_with(IN_OWN_TABLE)
    return look_at_reports(LeaseScan((), reports=in_lease_table), world.ports, settings).reports


def test_reports_own_table_is_read_only_by_those_who_would_report_there() -> None:
    assert looked_at(CONTINUOUS) == (IN_OWN_TABLE,)
    assert looked_at(CONTINUOUS, OURS) == (OURS, IN_OWN_TABLE)
    assert looked_at(CONTINUOUS, JAVA) == (JAVA,)
    assert looked_at(replace(CONTINUOUS, mode=Mode.CATCH_UP)) == ()
    assert looked_at(replace(CONTINUOUS, kcl_fleet=KclFleet.V2)) == ()


def test_tick_reports_and_steals_beside_workers_migrating_to_kcl_3() -> None:
    world, reports = world_with(IN_OWN_TABLE)
    reports.state = {"key": {"S": "Migration3.0"}, "cv": {"S": "CLIENT_VERSION_UPGRADE_FROM_2X"}}
    report = world.manager().tick()
    assert (report.fleet, report.is_reporting) == (FleetKind.EACH_FOR_ITSELF, True)
    assert reports.load()[1:] == (WorkerReport("orders-lambda-0", BEGINNING, ReportPlace.OWN_TABLE),)


def test_a_window_renews_the_report_that_a_tick_has_made() -> None:
    world, reports = world_with(JAVA, OURS)
    world.put("a")
    world.manager().tick()
    world.window(lasts=70 * SECOND)
    assert reports.get("orders-lambda-0") == WorkerReport(
        "orders-lambda-0", BEGINNING + 60 * SECOND, ReportPlace.LEASE_TABLE
    )


def test_a_window_creates_no_report() -> None:
    world, reports = world_with()
    renew_report("orders-lambda-0", world.ports)
    assert reports.get("orders-lambda-0") is None


def test_a_leaving_process_deletes_its_report() -> None:
    world, reports = world_with(JAVA, OURS)
    stop_reporting(["orders-lambda-0"], world.ports)
    assert (reports.get("orders-lambda-0"), reports.get("java-1")) == (None, JAVA)


def test_tick_removes_a_report_that_is_no_longer_due() -> None:
    world, reports = world_with(JAVA, OURS)
    make_reports(ReportPlan(remove=(OURS,)), world.ports)
    assert (reports.get("orders-lambda-0"), reports.get("java-1")) == (None, JAVA)


def test_no_report_is_made_without_the_port() -> None:
    world, reports = world_with()
    world.reports = None
    make_reports(ReportPlan((OURS,)), world.ports)
    assert reports.get("orders-lambda-0") is None


def test_heartbeats_and_checkpoints_write_the_throughput() -> None:
    """KCL's leader goes by it: a KiB in the first ten seconds, of which half is left after as long again, with nothing
    more.
    """
    world, _ = world_with()
    world.put("x" * 1024)
    world.window(lasts=15 * SECOND)
    assert world.table.lease().throughput_kbps == pytest.approx(0.1, rel=0.1)
    world = EngineWorld(CONTINUOUS)
    world.put("x" * 1024)
    world.window(lasts=25 * SECOND)
    assert world.table.lease().throughput_kbps == pytest.approx(0.05, rel=0.1)


def test_a_leader_gets_the_bytes_of_an_aggregate_s_user_records_only() -> None:
    """As Java tells it: who counted what is around them as well would be given fewer leases than Java."""
    world = EngineWorld(CONTINUOUS)
    world.shards.put("k", aggregate([("k" * 200, None, b"x" * 64) for _ in range(16)]))
    world.window(lasts=15 * SECOND)
    assert world.table.lease().throughput_kbps == pytest.approx(0.1, rel=0.1)


def test_catch_up_window_measures_no_throughput() -> None:
    world = EngineWorld(replace(CONTINUOUS, mode=Mode.CATCH_UP, linger=30 * SECOND))
    world.put("a")
    world.window()
    assert world.table.lease().throughput_kbps is None
