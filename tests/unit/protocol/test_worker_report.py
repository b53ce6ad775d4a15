"""Reports as KCL 3.5.1 writes them, and as we do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sublet.protocol.table_scan import scan_of
from sublet.protocol.worker_report import ReportPlace, WorkerReport, client_version_in, decode_report, encode_report

AT = datetime(2026, 11, 22, 7, 0, 45, tzinfo=UTC)
JAVA_3_5: dict[str, Any] = {
    "entityType": {"S": "WORKER_METRIC_STATS"},
    "leaseKey": {"S": "java-kcl-2"},
    "lut": {"N": "1795330845"},
    "opr": {"M": {}},
    "slu": {"N": "1795330845"},
    "sts": {"M": {}},
    "sup": {"N": "1"},
}


def test_javas_row_is_read() -> None:
    theirs = WorkerReport("java-kcl-2", AT, ReportPlace.LEASE_TABLE)
    assert decode_report(JAVA_3_5, ReportPlace.LEASE_TABLE) == theirs
    assert scan_of([JAVA_3_5]).reports == (theirs,)


def test_report_equals_javas() -> None:
    assert encode_report(WorkerReport("java-kcl-2", AT, ReportPlace.LEASE_TABLE)) == JAVA_3_5


def test_report_in_its_own_table_has_another_key() -> None:
    row = encode_report(WorkerReport("sublet-1", AT, ReportPlace.OWN_TABLE))
    assert (row["wid"], "leaseKey" in row) == ({"S": "sublet-1"}, False)
    older: dict[str, Any] = {
        "wid": {"S": "java-1"},
        "lut": {"N": "1795330845"},
        "sts": {"M": {"C": {"L": [{"N": "3.5"}]}}},
    }
    assert decode_report(older, ReportPlace.OWN_TABLE) == WorkerReport("java-1", AT, ReportPlace.OWN_TABLE)


@pytest.mark.parametrize(
    "damage",
    [
        {"lut": {"S": "yesterday"}},
        {"lut": {"N": "9" * 30}},
        {"leaseKey": {"N": "1"}},
        {"entityType": {"S": "LEADER"}},
    ],
)
def test_report_that_kcl_would_refuse_decodes_to_none(damage: dict[str, Any]) -> None:
    assert decode_report({**JAVA_3_5, **damage}, ReportPlace.LEASE_TABLE) is None


def test_report_without_a_timestamp_decodes_to_none() -> None:
    row: dict[str, Any] = {name: value for name, value in JAVA_3_5.items() if name != "lut"}
    assert decode_report(row, ReportPlace.LEASE_TABLE) is None


def test_the_version_of_a_fleet_stands_in_either_table() -> None:
    in_own, in_lease_table = (
        {name: {"S": "Migration3.0"}, "cv": {"S": "CLIENT_VERSION_3X"}} for name in ("key", "leaseKey")
    )
    assert client_version_in(in_own) == "CLIENT_VERSION_3X"
    state = {**in_lease_table, "entityType": {"S": "CLIENT_VERSION_MIGRATION"}}
    assert scan_of([state, JAVA_3_5]).client_version == "CLIENT_VERSION_3X"
    assert client_version_in({**in_own, "key": {"S": "Leader"}}) is None
