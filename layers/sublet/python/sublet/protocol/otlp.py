"""Metrics as a request of OpenTelemetry's protocol (OTLP), encoded as JSON.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: names in lowerCamelCase, enums as numbers, integers of
64 bits as text. Protobuf's encoding would need OpenTelemetry's packages or a copy of their messages, and once both are
compressed it is no shorter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from sublet.metric_names import NAMESPACE, Instrument, Kind
from sublet.protocol.histogram import Histogram

Attributes = tuple[tuple[str, str], ...]
"""OpenTelemetry's names and values."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The variable with a collector's address, such as http://localhost:4318; `/v1/metrics` is added."""
METRICS_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
"""The same for metrics alone, as it is."""


def has_collector(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a collector; otherwise metrics go to CloudWatch."""
    return any(environment.get(name, "").strip() for name in (ENDPOINT, METRICS_ENDPOINT))


class Temporality(IntEnum):
    """What a counter's value counts from: the request before, or the start of the process."""

    DELTA = 1
    CUMULATIVE = 2


class Series(NamedTuple):
    """One series' value. A series is an instrument with attributes."""

    instrument: Instrument
    attributes: Attributes
    value: float | Histogram


class Span(NamedTuple):
    """The time that values are about; gauges' are of `until`."""

    since: datetime
    until: datetime


def metrics_request(
    found: Iterable[Series], span: Span, temporality: Temporality, resource: Attributes, version: str
) -> bytes:
    """An ExportMetricsServiceRequest. `resource`: of what the values are; `version`: sublet's."""
    by_instrument: dict[Instrument, list[Series]] = defaultdict(list)
    for series in found:
        by_instrument[series.instrument].append(series)
    of = {
        "resource": {"attributes": _attributes(resource)},
        "scopeMetrics": [
            {
                "scope": {"name": NAMESPACE, "version": version},
                "metrics": [_metric(at, each, span, temporality) for at, each in by_instrument.items()],
            }
        ],
    }
    return msgspec.json.encode({"resourceMetrics": [of]})


def _metric(at: Instrument, found: Iterable[Series], span: Span, temporality: Temporality) -> Mapping[str, Any]:
    named = {"name": at.name, "unit": at.unit}
    if at.kind is Kind.GAUGE:
        return {**named, "gauge": {"dataPoints": [_point(each, span.until) for each in found]}}
    points = [{"startTimeUnixNano": _nanos(span.since), **_point(each, span.until)} for each in found]
    data: dict[str, Any] = {"dataPoints": points, "aggregationTemporality": temporality.value}
    if at.kind is Kind.HISTOGRAM:
        return {**named, "histogram": data}
    return {**named, "sum": {**data, "isMonotonic": True}}


def _point(series: Series, at: datetime) -> Mapping[str, Any]:
    about = {"attributes": _attributes(series.attributes), "timeUnixNano": _nanos(at)}
    if not isinstance(series.value, Histogram):
        return {**about, "asDouble": float(series.value)}
    return {
        **about,
        "count": str(series.value.count),
        "sum": series.value.total,
        "bucketCounts": [str(count) for count in series.value.counts],
        "explicitBounds": series.value.bounds,
    }


def _attributes(attributes: Attributes) -> list[Mapping[str, Any]]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in attributes]


def _nanos(moment: datetime) -> str:
    return str((moment - EPOCH) // timedelta(microseconds=1) * 1_000)
