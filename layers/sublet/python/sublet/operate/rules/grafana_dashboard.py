"""A Grafana dashboard over what `/metrics` of a process and `sublet exporter` show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sublet.metric_names import OF_EXPORTER, SECONDS, Attribute, Metric
from sublet.operate.rules.alert_rules import BY_SHARD, prometheus_name

SCHEMA_VERSION = 39
"""Grafana 11's, which later ones migrate by themselves."""

WIDTH, HEIGHT, COLUMNS = 12, 8, 2
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN = f'{Attribute.APPLICATION}=~"$application"'
BY_APPLICATION = Attribute.APPLICATION.value


class Panel(NamedTuple):
    """`queries`: legend -> PromQL. `unit`: Grafana's name."""

    title: str
    unit: str
    queries: Mapping[str, str]


def _of_shards(metric: Metric) -> str:
    return f"max by ({BY_SHARD}) ({prometheus_name(metric)}{{{CHOSEN}}})"


def _of_applications(metric: Metric, aggregate: str = "max") -> str:
    return f"{aggregate} by ({BY_APPLICATION}) ({prometheus_name(metric)}{{{CHOSEN}}})"


def _rate(metric: Metric, by: str = BY_SHARD) -> str:
    return f"sum by ({by}) (rate({prometheus_name(metric)}{{{CHOSEN}}}[5m]))"


def _own(name: str, by: str = BY_SHARD) -> str:
    return f"max by ({by}) ({OF_EXPORTER[name].instrument.prometheus}{{{CHOSEN}}})"


SHARD, APPLICATION = "{{application}} {{stream}} {{shard_id}}", "{{application}}"


def _each(*metrics: Metric) -> Mapping[str, str]:
    return {f"{SHARD} {metric.value}": _of_shards(metric) for metric in metrics}


def _rates(*metrics: Metric) -> Mapping[str, str]:
    return {f"{APPLICATION} {metric.value}": _rate(metric, BY_APPLICATION) for metric in metrics}


def panels() -> Sequence[Panel]:
    return (
        Panel("Lag", SECONDS, {SHARD: _of_shards(Metric.MILLIS_BEHIND_LATEST)}),
        Panel("Until the oldest record is trimmed", SECONDS, {APPLICATION: _own("retention_left", BY_APPLICATION)}),
        Panel(
            "Stalled",
            SECONDS,
            _each(Metric.CHECKPOINT_AGE, Metric.UNREAD_AGE, Metric.OWNER_STALLED_AGE, Metric.HANDLER_CALL_AGE),
        ),
        Panel(
            "Shards by status",
            "short",
            {
                "{{application}} {{status}}": (
                    f"sum by ({BY_APPLICATION}, status) ({OF_EXPORTER['status'].instrument.prometheus}{{{CHOSEN}}})"
                )
            },
        ),
        Panel("Records a second", "short", {SHARD: f"{_rate(Metric.RECORDS)} or {_own('read_records')}"}),
        Panel("Bytes a second", "Bps", {SHARD: f"{_rate(Metric.BYTES)} or {_own('read_bytes')}"}),
        Panel(
            "Leases",
            "short",
            {
                f"{APPLICATION} {metric.value}": _of_applications(metric)
                for metric in (
                    Metric.TOTAL_SHARDS,
                    Metric.TOTAL_LEASES,
                    Metric.UNCLAIMED_LEASES,
                    Metric.PAUSED_LEASES,
                )
            }
            | {f"{APPLICATION} worker_leases": _of_applications(Metric.WORKER_LEASES, "sum")},
        ),
        Panel("Failed attempts at the same records", "short", {SHARD: _of_shards(Metric.HANDLER_ATTEMPTS)}),
        Panel(
            "Trouble a second",
            "short",
            _rates(
                Metric.HANDLER_FAILURES,
                Metric.RECORDS_SET_ASIDE,
                Metric.DESTINATION_REFUSALS,
                Metric.LOST_LEASES,
                Metric.LATE_CHECKPOINTS,
                Metric.DATA_GAP,
            ),
        ),
        Panel(
            "Refused a second, and polls throttled in a row",
            "short",
            {
                **_rates(Metric.READS_REFUSED, Metric.TICKS_REFUSED, Metric.LEASES_FAILED),
                **_each(Metric.THROTTLED_POLLS),
            },
        ),
    )


def dashboard() -> Mapping[str, Any]:
    """The dashboard's JSON model, to be imported, or provisioned from a file."""
    return {
        "uid": "sublet",
        "title": "sublet: Kinesis consumers",
        "tags": ["kinesis", "sublet"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_data_source(), _application()]},
        "annotations": {"list": []},
        "panels": list(_drawn()),
    }


def _data_source() -> Mapping[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _application() -> Mapping[str, Any]:
    query = f"label_values({prometheus_name(Metric.TOTAL_LEASES)}, {Attribute.APPLICATION})"
    return {
        "name": "application", "label": "Application", "type": "query", "datasource": SOURCE,
        "query": {"query": query, "refId": "application"}, "refresh": 2, "multi": True, "includeAll": True,
        "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _drawn() -> Iterator[Mapping[str, Any]]:
    for number, panel in enumerate(panels()):
        row, column = divmod(number, COLUMNS)
        yield {
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": SOURCE,
            "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 5}}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
            "targets": [
                {"refId": chr(ord("A") + place), "expr": expr, "legendFormat": legend, "datasource": SOURCE}
                for place, (legend, expr) in enumerate(panel.queries.items())
            ],
        }
