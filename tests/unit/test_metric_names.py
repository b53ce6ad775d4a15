"""Each metric is defined once: EMF and the documents say what the definition says, and names in EMF stay."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sublet.aws.metrics import EmfMetrics
from sublet.metric_names import Attribute, Instrument, Kind, Metric, Unit

ROOT = Path(__file__).parents[2]
OF_SEVERAL = "123456789012:eu:1700000000:shardId-0"
DEFINED = [metric for metric in Metric if metric.elsewhere is not None]

EMF = {
    Unit.COUNT: "total_shards total_leases unclaimed_leases quiet_leases malformed_rows crashing_leases paused_leases "
    "worker_leases leases_failed reads_refused ticks_refused fan_out_polled_instead throttled_polls records "
    "handler_failures handler_attempts records_set_aside destination_refusals lost_leases late_checkpoints "
    "records_dropped_out_of_range aggregates_delivered_whole data_gap",
    Unit.MILLISECONDS: "millis_behind_latest checkpoint_age unread_age owner_stalled_age standstill_age "
    "stream_stalled_age handler_call_age oldest_unfinished_age",
    Unit.BYTES: "bytes",
}
"""As sublet 0.2 puts them: alarms and dashboards of users are on these."""


class Kept:
    is_read = True

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def write(self, text: str) -> int:
        self.lines.append(json.loads(text))
        return len(text)


def test_metrics_keep_their_names_and_units_in_emf() -> None:
    output = Kept()
    metrics = EmfMetrics("orders", output=output)
    for metric in Metric:
        metrics.put(metric, 1, shard_id=OF_SEVERAL)
    metrics.flush()
    declared = {
        (each["Name"], each["Unit"])
        for line in output.lines
        for of in line["_aws"]["CloudWatchMetrics"]  # type: ignore[index]  # EMF
        for each in of["Metrics"]
    }
    assert declared >= {(name, unit.value) for unit, names in EMF.items() for name in names.split()}
    assert declared <= {(metric.value, metric.unit.value) for metric in Metric}
    dimensions = {key for line in output.lines for key in line} - {"_aws", *Metric}
    assert dimensions == set(Attribute)


def test_documents_have_each_name_of_each_metric() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert [metric for metric in Metric if f"| `{metric}` | {metric.unit} |" not in page] == []
    rows = {f"| `{each}` | `{at.name}` | {at.kind} | `{at.unit}` | `{at.prometheus}` |" for each, at in _elsewhere()}
    assert {line for line in page.splitlines() if line in rows} == rows
    assert all(f"| `{each}` | `{each.otlp}` | `{each}` |" in page for each in Attribute)


def _elsewhere() -> list[tuple[Metric, Instrument]]:
    return [(metric, metric.elsewhere) for metric in DEFINED if metric.elsewhere]


def test_names_elsewhere_are_unique() -> None:
    names = [metric.elsewhere.name for metric in DEFINED if metric.elsewhere]
    assert len(set(names)) == len(names)
    assert len({metric.elsewhere.prometheus for metric in DEFINED if metric.elsewhere}) == len(names)


@pytest.mark.parametrize("metric", DEFINED)
def test_names_elsewhere_follow_their_conventions(metric: Metric) -> None:
    """OpenTelemetry: dots and lower case, no unit and no `total` in the name, no name that is another's namespace.
    Prometheus: letters, digits and underscores, base units.
    """
    at = metric.elsewhere
    assert at is not None
    assert re.fullmatch(r"(sublet|messaging\.client)(\.[a-z_]+)+", at.name)
    assert not re.search(r"total|second|milli|byte", at.name)
    assert not [other for other in DEFINED if other.elsewhere and other.elsewhere.name.startswith(f"{at.name}.")]
    assert re.fullmatch(r"[a-z][a-z_]*", at.prometheus)
    assert at.prometheus.endswith("_total") == (at.kind is Kind.COUNTER)
    assert ("_seconds" in at.prometheus) == (metric.unit is Unit.MILLISECONDS)
    assert ("_bytes" in at.prometheus) == (metric.unit is Unit.BYTES)


def test_durations_are_in_seconds_elsewhere() -> None:
    lag, size = Metric.MILLIS_BEHIND_LATEST, Metric.BYTES
    assert lag.elsewhere is not None
    assert size.elsewhere is not None
    assert lag.elsewhere.value(1_500, lag.unit) == 1.5
    assert size.elsewhere.value(1_500, size.unit) == 1_500
