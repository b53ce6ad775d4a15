"""The WorkerReports port's promises, for both implementations and both of KCL's tables; and for missing tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.worker_reports import ABSENT_FOR, DynamoDbWorkerReports
from sublet.ports import WorkerReports
from sublet.protocol.worker_report import ReportPlace, WorkerReport
from sublet.settings import Settings
from sublet.testing.memory import FakeClock, MemoryLeaseTable, MemoryWorkerReports
from sublet.testing.memory.clock import BEGINNING

from tests.contract.dynamodb_tables import create_table

MINUTE = timedelta(minutes=1)
Make = Callable[[bool], WorkerReports]


@pytest.fixture(params=["memory", pytest.param("moto", marks=pytest.mark.emulator)])
def make(request: pytest.FixtureRequest) -> Make:
    """With the separate table, or without."""
    if request.param == "memory":
        return lambda has_own: MemoryWorkerReports(MemoryLeaseTable(), {} if has_own else None)
    request.getfixturevalue("moto_aws")

    def over_dynamodb(has_own: bool) -> WorkerReports:
        settings, client = Settings(application=f"app-{uuid.uuid4().hex[:8]}", stream="s"), dynamodb_client()
        create_table(client, settings.lease_table, "leaseKey")
        if has_own:
            create_table(client, f"{settings.application}-WorkerMetricStats", "wid")
        return DynamoDbWorkerReports(lambda: client, settings, FakeClock())

    return over_dynamodb


@pytest.mark.parametrize("place", ReportPlace)
def test_report_is_read_from_its_place_until_it_is_removed(make: Make, place: ReportPlace) -> None:
    reports, ours = make(True), WorkerReport("sublet-1", BEGINNING, place)
    reports.remove(ours)
    reports.put(ours)
    later = WorkerReport("sublet-1", BEGINNING + MINUTE, place)
    reports.put(later)
    assert reports.get("sublet-1") == later
    assert reports.load() == ((later,) if place is ReportPlace.OWN_TABLE else ())
    reports.remove(later)
    assert reports.get("sublet-1") is None


def test_the_lease_table_comes_first(make: Make) -> None:
    reports = make(True)
    both = [WorkerReport("sublet-1", BEGINNING, place) for place in ReportPlace]
    for report in both:
        reports.put(report)
    assert reports.get("sublet-1") == both[0]


def test_missing_table_holds_no_reports(make: Make) -> None:
    reports = make(False)
    assert (reports.load(), reports.get("sublet-1")) == ((), None)


class Asked:
    """A client that counts its calls; the table does not exist until it is created."""

    def __init__(self, client: Any) -> None:
        self.real, self.scans = client, 0

    def get_paginator(self, name: str) -> Any:
        self.scans += 1
        return self.real.get_paginator(name)


@pytest.mark.usefixtures("moto_aws")
@pytest.mark.emulator
def test_a_table_that_is_not_there_is_asked_for_again_later() -> None:
    settings, clock, client = (
        Settings(application="orders", stream="s"),
        FakeClock(),
        Asked(dynamodb_client()),
    )
    reports = DynamoDbWorkerReports(lambda: client, settings, clock)  # type: ignore[arg-type,return-value] # a double
    for _ in range(3):
        reports.load()
    assert client.scans == 1
    clock.advance(ABSENT_FOR)
    reports.load()
    assert client.scans == 2
