"""Metrics in OTLP: what a strict stand-in of CloudWatch's endpoint takes, and that nothing else fails with it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import Timer
from typing import Any

import boto3
import pytest
from sublet.aws.clients import Connection
from sublet.aws.metrics import EmfMetrics
from sublet.aws.otlp.endpoint import CloudWatch, Collector, Refused, endpoint_of
from sublet.aws.otlp.exported_metrics import SERIES_MAX, ExportedMetrics, OtlpSeries, Sending
from sublet.aws.ports import aws_ports
from sublet.errors import SettingsError
from sublet.metric_names import Metric
from sublet.protocol.otlp import Temporality
from sublet.settings import MetricsExport, Settings
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryLog

from tests.doubles.otlp_service import Credentials, OtlpService, Refusal, Request, otlp_service, points_of

SIGNER = Credentials(token="FQoGZXIvYXdzEXAMPLE")
NOW = datetime(2026, 11, 1, tzinfo=UTC)
OF_SEVERAL = "123456789012:eu:1700000000:shardId-0"


class Kept:
    """EMF lines."""

    is_read = True

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, text: str) -> int:
        self.lines.append(json.loads(text))
        return len(text)

    def values(self, metric: Metric) -> list[float]:
        return [value for line in self.lines for value in line.get(metric, [])]


@pytest.fixture(scope="module")
def signed() -> Iterator[OtlpService]:
    with otlp_service(SIGNER) as service:
        yield service


@pytest.fixture
def collector() -> Iterator[OtlpService]:
    with otlp_service() as service:
        yield service


def session(signer: Credentials = SIGNER) -> boto3.Session:
    return boto3.Session(signer.access_key, signer.secret_key, signer.token, "eu-west-1")


def connection(service: OtlpService, signer: Credentials = SIGNER) -> Connection:
    return Connection(region="eu-west-1", endpoint_url=service.url, session=session(signer))


def exported(
    endpoint: Any, *, within: float = 2, apart: timedelta = timedelta(0), by_shard: bool = False
) -> tuple[ExportedMetrics, Kept, MemoryLog]:
    output, log, clock = Kept(), MemoryLog(), SystemClock()
    series = OtlpSeries("orders-audit", "orders", endpoint.temporality, clock.now(), "here", by_shard=by_shard)
    sending = Sending(endpoint, timedelta(seconds=within))
    return ExportedMetrics(EmfMetrics("orders-audit", output=output), series, sending, clock, log, apart), output, log


def test_cloudwatch_takes_a_signed_request_with_a_series_for_each_shard(signed: OtlpService) -> None:
    metrics, output, log = exported(CloudWatch(connection(signed)))
    for shard, lag in (("shardId-0", 1_500), ("shardId-1", 0)):
        metrics.put(Metric.MILLIS_BEHIND_LATEST, lag, shard_id=shard)
        metrics.put(Metric.RECORDS, lag / 500, shard_id=shard)
        metrics.put(Metric.UNREAD_AGE, lag, shard_id=shard)
    metrics.put(Metric.RECORDS, 4, shard_id="shardId-0")
    metrics.put(Metric.TOTAL_LEASES, 2)
    metrics.flush()
    assert signed.refusals == []
    assert signed.values("sublet.lag") == {("orders", "shardId-0"): 1.5, ("orders", "shardId-1"): 0}
    assert signed.values("messaging.client.consumed.messages") == {("orders", "shardId-0"): 7}
    assert signed.values("sublet.unread_age") == {("orders", "shardId-0"): 1.5, ("orders", ""): 0}
    assert signed.values("sublet.leases") == {("orders", ""): 2}
    labels = signed.taken[0].labels
    assert labels["messaging.consumer.group.name"] == labels["@resource.service.name"] == "orders-audit"
    assert labels["@resource.messaging.system"] == "aws_kinesis"
    assert "@resource.service.instance.id" not in labels, "CloudWatch is paid by the byte"
    assert (output.values(Metric.TOTAL_LEASES), log.lines) == ([2], [])


def test_shards_of_several_streams_have_their_own_stream_and_id(collector: OtlpService) -> None:
    metrics, *_ = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA))
    metrics.put(Metric.MILLIS_BEHIND_LATEST, 2_000, shard_id=OF_SEVERAL)
    metrics.flush()
    assert collector.values("sublet.lag") == {("eu", "shardId-0"): 2}


def test_wrong_credentials_fail_nothing_and_count_in_emf(signed: OtlpService) -> None:
    wrong = Credentials(secret_key="another")
    metrics, output, log = exported(CloudWatch(connection(signed, wrong)))
    metrics.put(Metric.TOTAL_LEASES, 2)
    metrics.flush()
    assert output.values(Metric.TOTAL_LEASES) == [2]
    assert output.values(Metric.METRICS_EXPORTS_FAILED) == [1]
    (line,) = log.lines
    assert "HTTP 403" in str(line.fields["problem"])
    assert "another" not in f"{line} {output.lines}"


def test_endpoint_that_does_not_answer_is_waited_for_no_longer_than_stated(collector: OtlpService) -> None:
    metrics, output, log = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA), within=0.2)
    collector.holds.clear()
    clock = SystemClock()
    began = clock.steady()
    for leases in (1, 2):
        metrics.put(Metric.TOTAL_LEASES, leases)
        metrics.flush()
    assert clock.steady() - began < timedelta(seconds=1.4)
    assert [str(line.fields["problem"]) for line in log.lines] == [
        "no answer within 0.2 s",
        "the request before is still under way",
    ]
    assert output.values(Metric.TOTAL_LEASES) == [1, 2]
    assert output.values(Metric.METRICS_EXPORTS_FAILED) == [1, 1]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((503, b"busy"), "Refused: HTTP 503: busy"),
        (
            (200, b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}'),
            "Refused: 3 values were refused: too old",
        ),
    ],
)
def test_a_refusal_is_said_with_its_reason_and_the_next_request_goes_out(
    collector: OtlpService, answer: tuple[int, bytes], problem: str
) -> None:
    metrics, output, log = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA))
    collector.answers = [answer]
    for leases in (1, 2, 3):
        metrics.put(Metric.TOTAL_LEASES, leases)
        metrics.flush()
    assert [line.fields["problem"] for line in log.lines] == [problem]
    assert [each.value for each in collector.taken] == [2, 3]
    assert output.values(Metric.METRICS_EXPORTS_FAILED) == [1, 0], "the zero of the last waits for the next lines"


def test_connection_that_is_refused_counts_as_failed() -> None:
    with otlp_service() as gone:
        url = gone.url
    metrics, output, _ = exported(Collector(f"{url}/v1/metrics", {}, Temporality.DELTA))
    metrics.put(Metric.TOTAL_LEASES, 2)
    metrics.flush()
    assert output.values(Metric.METRICS_EXPORTS_FAILED) == [1]


def test_nothing_is_sent_when_nothing_was_put(collector: OtlpService) -> None:
    metrics, *_ = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA))
    metrics.put(Metric.STANDSTILL_AGE, 5)
    metrics.flush()
    assert collector.requests == []


def test_a_process_sends_what_it_put_within_a_minute_in_one_request(collector: OtlpService) -> None:
    metrics, *_ = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA), apart=timedelta(seconds=50))
    for records in (1, 2, 3):
        metrics.put(Metric.RECORDS, records, shard_id="shardId-0")
        metrics.flush()
    assert [each.value for each in collector.taken] == [1]


def test_cumulative_counters_go_on_and_deltas_begin_anew() -> None:
    for temporality, values in ((Temporality.CUMULATIVE, [2, 5]), (Temporality.DELTA, [2, 3])):
        series, found = OtlpSeries("orders-audit", "orders", temporality, NOW, "here"), []
        for minute, records in enumerate((2, 3), 1):
            series.put(Metric.RECORDS, records, "shardId-0")
            series.put(Metric.TOTAL_LEASES, records, None)
            (body,) = series.taken(NOW + timedelta(minutes=minute))
            found += [point.value for point in points(body) if point.name.startswith("messaging")]
        assert found == values
        assert ("here" in body.decode()) == (temporality is Temporality.CUMULATIVE)


def points(body: bytes) -> list[Any]:
    request = Request("POST", "/v1/metrics", {"content-type": "application/json"}, body)
    return [*points_of(request, NOW, None, "")]


def test_gauge_is_the_greatest_since_the_last_request() -> None:
    series = OtlpSeries("orders-audit", "orders", Temporality.DELTA, NOW)
    for attempts in (19, 21, 1):
        series.put(Metric.HANDLER_ATTEMPTS, attempts, "shardId-0")
    assert [point.value for body in series.taken(NOW) for point in points(body)] == [21]
    assert series.taken(NOW) == []


def test_many_shards_are_several_requests_of_a_size_that_is_taken() -> None:
    series = OtlpSeries("a" * 200, "s" * 128, Temporality.DELTA, NOW)
    for number in range(SERIES_MAX + 1):
        series.put(Metric.MILLIS_BEHIND_LATEST, number, f"shardId-{number:012}")
    assert [len(points(body)) for body in series.taken(NOW)] == [SERIES_MAX, 1]


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "application/json"}, b'{"resourceMetrics":[{"scopeMetrics":[{"metrix":[]}]}]}', 400),
        ({"content-type": "application/json"}, b'{"resourceMetrics":[{"resource":{}}]}', 400),
        ({"content-type": "text/plain"}, b"{}", 415),
        ({"content-type": "application/json", "content-encoding": "zstd"}, b"{}", 415),
        ({"content-type": "application/json"}, b" " * 1_000_001, 413),
        ({"content-type": "application/json", "content-encoding": "gzip"}, b"{}", 400),
    ],
)
def test_the_stand_in_refuses_what_has_another_form(headers: dict[str, str], body: bytes, status: int) -> None:
    with pytest.raises(Refusal) as refused:
        points_of(Request("POST", "/v1/metrics", headers, body), NOW, None, "")
    assert refused.value.status == status


def test_the_stand_in_refuses_a_request_that_was_changed_after_it_was_signed(signed: OtlpService) -> None:
    metrics, *_ = exported(CloudWatch(connection(signed)))
    metrics.put(Metric.TOTAL_LEASES, 2)
    metrics.flush()
    sent = signed.requests[-1]
    assert gzip.decompress(sent.body).startswith(b'{"resourceMetrics"')
    now = datetime.now(UTC)
    assert len(points_of(sent, now, SIGNER, "eu-west-1")) == 1
    changed = Request(sent.method, sent.path, sent.headers, gzip.compress(b"{}"))
    for request, at, region in (
        (changed, now, "eu-west-1"),
        (sent, now + timedelta(hours=1), "eu-west-1"),
        (sent, now, "eu-west-2"),
        (Request("POST", "/v1/metrics", {"content-type": "application/json"}, b"{}"), now, "eu-west-1"),
    ):
        with pytest.raises(Refusal) as refused:
            points_of(request, at, SIGNER, region)
        assert refused.value.status == 403


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318/"}, "http://localhost:4318/v1/metrics"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://otel.example/in"}, "https://otel.example/in/v1/metrics"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://b/otlp/metrics"},
            "http://b/otlp/metrics",
        ),
    ],
)
def test_a_collector_is_found_by_opentelemetrys_variables(environment: dict[str, str], url: str) -> None:
    endpoint = endpoint_of(environment, Connection())
    assert isinstance(endpoint, Collector)
    assert (endpoint._url, endpoint.temporality) == (url, Temporality.CUMULATIVE)


def test_collectors_headers_are_sent_and_temporality_may_be_delta(collector: OtlpService) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20abc, X-Tenant=a",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-tenant=b",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
    }
    endpoint = endpoint_of(environment, Connection())
    metrics, *_ = exported(endpoint)
    metrics.put(Metric.RECORDS, 1, shard_id="shardId-0")
    metrics.flush()
    (request,) = collector.requests
    assert (request.headers["authorization"], request.headers["x-tenant"]) == ("Basic abc", "b")
    assert endpoint.temporality is Temporality.DELTA


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_EXPORTER_OTLP_HEADERS": "Bearer s3cret"},
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_EXPORTER_OTLP_HEADERS": "a=s3cret%0d%0ax-evil: 1"},
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_EXPORTER_OTLP_HEADERS": "x y=s3cret"},
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_EXPORTER_OTLP_HEADERS": "a=s3cret%E2%82%AC"},
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_EXPORTER_OTLP_HEADERS": "Content-Length=5"},
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:s3cret@a"}, "OTEL_EXPORTER_OTLP_ENDPOINT.*OTLP_HEADERS"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://me:s3cret@a"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://[::1"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a:99999"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a",
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "sometimes",
            },
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        ),
    ],
)
def test_a_wrong_variable_is_named_without_its_secret(environment: dict[str, str], name: str) -> None:
    with pytest.raises(SettingsError, match=name) as wrong:
        endpoint_of(environment, Connection())
    assert "s3cret" not in str(wrong.value)


def test_a_key_in_an_address_is_sent_and_not_told() -> None:
    endpoint = endpoint_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1/otlp?api-key=s3cret"}, Connection())
    with pytest.raises(Refused, match=r"http://127\.0\.0\.1:1/otlp/v1/metrics") as refused:
        endpoint.send(b"{}")
    assert "s3cret" not in str(refused.value)
    assert vars(endpoint)["_url"] == "http://127.0.0.1:1/otlp/v1/metrics?api-key=s3cret"


def test_cloudwatch_is_reached_at_its_address_in_the_region() -> None:
    endpoint = endpoint_of({}, Connection(region="eu-west-1", session=session()))
    assert isinstance(endpoint, CloudWatch)
    metrics, *_ = exported(endpoint)
    sent: list[Any] = []
    endpoint._session = type("Network", (), {"send": staticmethod(sent.append)})
    metrics.put(Metric.TOTAL_LEASES, 1)
    metrics.flush()
    assert sent[0].url == "https://monitoring.eu-west-1.amazonaws.com/v1/metrics"


def test_the_setting_decides_whether_anything_is_sent(collector: OtlpService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    for export, sent in ((MetricsExport.EMF, 0), (MetricsExport.OTLP, 1)):
        settings = Settings(application="orders-audit", stream="orders", metrics_export=export)
        ports = aws_ports(settings, "lease_manager", Connection(region="eu-west-1", session=session()))
        ports.metrics.put(Metric.TOTAL_LEASES, 1)
        ports.metrics.flush()
        assert len(collector.requests) == sent
    assert collector.refusals == []


def test_values_that_wait_are_sent_when_the_process_ends(collector: OtlpService) -> None:
    metrics, output, log = exported(
        Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA), apart=timedelta(seconds=50)
    )
    for leases, is_last in ((1, False), (2, False), (3, True)):
        metrics.put(Metric.RECORDS, leases, shard_id="shardId-0")
        metrics.flush(is_last=is_last)
    assert [each.value for each in collector.taken] == [1, 5]
    assert log.lines == []
    assert output.values(Metric.METRICS_EXPORTS_FAILED) == [0, 0], "nothing waits for lines that never come"


def test_the_last_request_waits_for_the_one_before_within_its_time(collector: OtlpService) -> None:
    metrics, _, log = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA), within=0.3)
    collector.holds.clear()
    metrics.put(Metric.TOTAL_LEASES, 1)
    metrics.flush()
    Timer(0.1, collector.holds.set).start()
    metrics.put(Metric.TOTAL_LEASES, 2)
    metrics.flush(is_last=True)
    assert [each.value for each in collector.taken] == [1, 2]
    assert [line.fields["problem"] for line in log.lines] == ["no answer within 0.3 s"]


PER_CALL = "messaging.process.duration"


@pytest.mark.parametrize("by_shard", [False, True])
def test_durations_of_calls_are_a_histogram_of_the_stream_or_of_the_shard(
    collector: OtlpService, by_shard: bool
) -> None:
    metrics, output, log = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA), by_shard=by_shard)
    for seconds, error in ((0.005, None), (0.2, None), (99, None), (0.2, "KeyError")):
        metrics.put_duration(timedelta(seconds=seconds), shard_id="shardId-0", error=error)
    metrics.flush()
    assert (collector.refusals, log.lines) == ([], [])
    counts = {each.labels.get("error.type"): each for each in collector.taken if each.name == f"{PER_CALL}_count"}
    assert {error: each.value for error, each in counts.items()} == {None: 3, "KeyError": 1}
    labels = counts[None].labels
    assert labels["messaging.operation.name"] == "process"
    assert labels["messaging.destination.name"] == "orders"
    assert labels["messaging.consumer.group.name"] == "orders-audit"
    assert labels.get("messaging.destination.partition.id") == ("shardId-0" if by_shard else None)
    buckets = {
        each.labels["le"]: each.value
        for each in collector.taken
        if each.name == f"{PER_CALL}_bucket" and "error.type" not in each.labels
    }
    assert [buckets[le] for le in ("0.005", "0.1", "0.25", "10.0", "+Inf")] == [1, 1, 2, 2, 3]
    assert output.lines == [], "EMF has none of it"


@pytest.mark.parametrize(("temporality", "counts"), [(Temporality.DELTA, [1, 1]), (Temporality.CUMULATIVE, [1, 2])])
def test_a_histogram_counts_from_the_request_before_or_from_the_start(
    collector: OtlpService, temporality: Temporality, counts: list[int]
) -> None:
    metrics, *_ = exported(Collector(f"{collector.url}/v1/metrics", {}, temporality))
    for _ in counts:
        metrics.put_duration(timedelta(seconds=1), shard_id="shardId-0")
        metrics.flush()
    assert [each.value for each in collector.taken if each.name == f"{PER_CALL}_count"] == counts


def test_powertools_switch_turns_off_the_log_lines_alone(
    collector: OtlpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kubernetes, where a collector takes metrics and nobody reads them in the log."""
    monkeypatch.setitem(os.environ, "POWERTOOLS_METRICS_DISABLED", "true")
    metrics, output, _ = exported(Collector(f"{collector.url}/v1/metrics", {}, Temporality.DELTA))
    metrics.put(Metric.TOTAL_LEASES, 1)
    metrics.flush()
    assert (output.lines, len(collector.taken)) == ([], 1)
