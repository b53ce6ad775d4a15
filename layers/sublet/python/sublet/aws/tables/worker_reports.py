"""The WorkerReports port over the lease table and, if there is one, the table in which KCL before 3.5 keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from sublet.aws.tables.lease_table import WHAT as LEASE_TABLE
from sublet.aws.tables.table_errors import named_table_errors
from sublet.errors import LeaseTableAccessDenied, LeaseTableNotFound
from sublet.ports import Clock
from sublet.protocol.worker_report import (
    CLIENT_VERSION_KEY,
    KEY,
    STATE_TABLE_KEY,
    ReportPlace,
    WorkerReport,
    client_version_in,
    decode_report,
    encode_report,
)
from sublet.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WHAT: Mapping[ReportPlace, str] = {
    ReportPlace.LEASE_TABLE: LEASE_TABLE,
    ReportPlace.OWN_TABLE: "worker metrics table of KCL",
}

STATE = "coordinator state table of KCL"

ABSENT_FOR = timedelta(seconds=30)
"""How long to wait before looking again for a table that is missing or that we may not read."""


T = TypeVar("T")


class DynamoDbWorkerReports:
    """The WorkerReports port. `connect` makes the client on first use: most windows end before that."""

    def __init__(self, connect: Callable[[], DynamoDBClient], settings: Settings, clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._tables = {
            ReportPlace.LEASE_TABLE: settings.lease_table,
            ReportPlace.OWN_TABLE: settings.worker_reports_table,
        }
        self._state_table = settings.kcl_state_table
        self._absent_since: datetime | None = None

    @cached_property
    def _client(self) -> Any:
        return self._connect()

    def load(self) -> tuple[WorkerReport, ...]:
        items = self._ask_own_table(self._scan) or ()
        reports = (decode_report(item, ReportPlace.OWN_TABLE) for item in items)
        return tuple(report for report in reports if report is not None)

    def client_version(self) -> str | None:
        return self._ask_own_table(self._client_version)

    def get(self, worker_id: str) -> WorkerReport | None:
        report = self._get(worker_id, ReportPlace.LEASE_TABLE)
        return report or self._ask_own_table(lambda: self._get(worker_id, ReportPlace.OWN_TABLE))

    def put(self, report: WorkerReport) -> None:
        with named_table_errors(WHAT[report.place], self._tables[report.place], KEY[report.place]):
            self._client.put_item(TableName=self._tables[report.place], Item=encode_report(report))

    def remove(self, report: WorkerReport) -> None:
        with named_table_errors(WHAT[report.place], self._tables[report.place], KEY[report.place]):
            self._client.delete_item(**self._row(report.worker_id, report.place))

    def _get(self, worker_id: str, place: ReportPlace) -> WorkerReport | None:
        with named_table_errors(WHAT[place], self._tables[place], KEY[place]):
            reply = self._client.get_item(**self._row(worker_id, place))
        return decode_report(reply.get("Item", {}), place)

    def _client_version(self) -> str | None:
        key = {STATE_TABLE_KEY: {"S": CLIENT_VERSION_KEY}}
        with named_table_errors(STATE, self._state_table, STATE_TABLE_KEY):
            reply = self._client.get_item(TableName=self._state_table, Key=key)
        return client_version_in(reply.get("Item", {}))

    def _row(self, worker_id: str, place: ReportPlace) -> dict[str, Any]:
        return {"TableName": self._tables[place], "Key": {KEY[place]: {"S": worker_id}}}

    def _scan(self) -> list[Mapping[str, Any]]:
        table = self._tables[ReportPlace.OWN_TABLE]
        with named_table_errors(WHAT[ReportPlace.OWN_TABLE], table, KEY[ReportPlace.OWN_TABLE]):
            pages = self._client.get_paginator("scan").paginate(TableName=table)
            return [item for page in pages for item in page["Items"]]

    def _ask_own_table(self, ask: Callable[[], T]) -> T | None:
        now, since = self._clock.steady(), self._absent_since
        if since is not None and now - since < ABSENT_FOR:
            return None
        try:
            answer = ask()
        except (LeaseTableNotFound, LeaseTableAccessDenied):
            self._absent_since = now
            return None
        self._absent_since = None
        return answer
