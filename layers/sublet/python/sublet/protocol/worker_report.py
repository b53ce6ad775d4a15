"""A worker's report in a KCL 3.x fleet, which shows its leader that it is alive: KCL's WorkerMetricStats, a row per
worker id.

The leader assigns leases only to workers that have reported lately. From 3.5 on the rows are in the lease table, beside
the leases; before, and until such an application has migrated, they are in a table of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from sublet.protocol.lease import AttributeValue
from sublet.protocol.lease_attributes import ENTITY_TYPE, LEASE_KEY, number, text

WORKER_ENTITY = "WORKER_METRIC_STATS"
WORKER_ID = "wid"
"""The key of that table."""

REPORTED_AT, METRICS, OPERATING_RANGES = "lut", "sts", "opr"
SUPPORT_CODE, SUPPORTED_AT = "sup", "slu"
SINGLE_TABLE_MIGRATION = 1
"""KCL's only support code: this worker reads and writes its entities in the lease table once they are there."""

CLIENT_VERSION_KEY, CLIENT_VERSION = "Migration3.0", "cv"
"""The version by whose rules the fleet works: while it goes from KCL 2.x to 3.x, workers report, but still take leases
for themselves.
"""

STATE_TABLE_KEY = "key"
"""The key of the separate table that may hold it."""

ASSIGNING_VERSIONS = frozenset({"CLIENT_VERSION_3X", "CLIENT_VERSION_3X_WITH_ROLLBACK"})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


class ReportPlace(StrEnum):
    """Where a fleet keeps its reports."""

    LEASE_TABLE = "lease_table"
    OWN_TABLE = "own_table"


KEY: Mapping[ReportPlace, str] = {ReportPlace.LEASE_TABLE: LEASE_KEY, ReportPlace.OWN_TABLE: WORKER_ID}


class WorkerReport(Struct, frozen=True):
    """A worker was alive at `reported_at`, to the second. Its other values are not needed."""

    worker_id: str
    reported_at: datetime
    place: ReportPlace


def decode_report(item: Mapping[str, AttributeValue], place: ReportPlace) -> WorkerReport | None:
    """Returns None if the row is not a report, or is one that KCL would treat as invalid."""
    if place is ReportPlace.LEASE_TABLE and item.get(ENTITY_TYPE, {}).get("S") != WORKER_ENTITY:
        return None
    worker_id, seconds = item.get(KEY[place], {}).get("S"), item.get(REPORTED_AT, {}).get("N")
    try:
        return WorkerReport(worker_id, _EPOCH + int(seconds) * _SECOND, place) if worker_id and seconds else None
    except (ValueError, OverflowError):
        return None


def client_version_in(item: Mapping[str, AttributeValue]) -> str | None:
    """Returns None if this is not the row with the version."""
    version: str | None = item.get(CLIENT_VERSION, {}).get("S")
    is_state = CLIENT_VERSION_KEY in (item.get(name, {}).get("S") for name in (LEASE_KEY, STATE_TABLE_KEY))
    return version if is_state else None


def encode_report(report: WorkerReport) -> dict[str, AttributeValue]:
    """The report has no figures of the machine, like that of a KCL with `disableWorkerMetrics`: its leader then uses
    the leases' throughput.
    """
    at = number((report.reported_at - _EPOCH) // _SECOND)
    return {
        KEY[report.place]: text(report.worker_id),
        ENTITY_TYPE: text(WORKER_ENTITY),
        REPORTED_AT: at,
        METRICS: {"M": {}},
        OPERATING_RANGES: {"M": {}},
        SUPPORT_CODE: number(SINGLE_TABLE_MIGRATION),
        SUPPORTED_AT: at,
    }
