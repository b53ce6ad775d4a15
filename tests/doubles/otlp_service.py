"""A stand-in of CloudWatch's endpoint for OTLP metrics, on loopback: it refuses what the service refuses.

By the User Guide's pages "OTLP Endpoints" and "Send metrics using OpenTelemetry": POST to /v1/metrics over HTTP/1.1,
binary Protobuf or JSON, gzip or no compression, signed (SigV4) for the service `monitoring`; at most 150 labels a data
point. A request's form is judged by OpenTelemetry's own messages. The signature is computed here, by the public
description of SigV4, not by the library that made it.

The page's limits of a request with metrics could not be read here. These are the strictest of those known: a megabyte,
which is that of logs, and times as of PutMetricData.

What it takes, it keeps as CloudWatch's PromQL names it ("PromQL querying"): a data point's attributes as they are, and
a resource's as `@resource.<name>`.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

PATH = "/v1/metrics"
BYTES_MAX = 1_000_000
LABELS_MAX = 150
NAME_MAX = 255
SKEW = timedelta(minutes=5)
PAST, FUTURE = timedelta(days=14), timedelta(hours=2)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIGNED = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Point:
    """A data point, as PromQL sees it."""

    name: str
    labels: Mapping[str, str]
    at: datetime
    value: float


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str = "AKIDEXAMPLE"
    secret_key: str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    token: str | None = None


class Refusal(Exception):
    """What the service answers instead of 200."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes


def points_of(request: Request, now: datetime, signer: Credentials | None, region: str) -> Sequence[Point]:
    """`signer`: None for a collector, which needs no signature. Raises Refusal."""
    if request.path != PATH:
        raise Refusal(404, f"no such path: {request.path}")
    if request.method != "POST":
        raise Refusal(405, f"not a POST: {request.method}")
    if signer is not None:
        _check_signature(request, now, signer, region)
    return [*_points(_message(request), now)]


def _message(request: Request) -> ExportMetricsServiceRequest:
    body = _plain(request)
    if len(body) > BYTES_MAX:
        raise Refusal(413, f"{len(body)} bytes")
    kind = request.headers.get("content-type", "")
    message = ExportMetricsServiceRequest()
    try:
        if kind == "application/x-protobuf":
            message.ParseFromString(body)
        elif kind == "application/json":
            json_format.Parse(body, message)
        else:
            raise Refusal(415, f"content-type {kind}")
    except (DecodeError, json_format.ParseError, UnicodeDecodeError) as wrong:
        raise Refusal(400, str(wrong)) from wrong
    return message


def _plain(request: Request) -> bytes:
    how = request.headers.get("content-encoding", "none")
    if how not in ("gzip", "none", "identity"):
        raise Refusal(415, f"content-encoding {how}")
    try:
        return gzip.decompress(request.body) if how == "gzip" else request.body
    except (OSError, EOFError, zlib.error) as wrong:
        raise Refusal(400, f"not gzip: {wrong}") from wrong


def _points(message: ExportMetricsServiceRequest, now: datetime) -> Iterator[Point]:
    for of_resource in message.resource_metrics:
        resource = {f"@resource.{name}": value for name, value in _labels(of_resource.resource.attributes).items()}
        if not resource.get("@resource.service.name"):
            raise Refusal(400, "a resource without service.name")
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                for point in _of_metric(metric):
                    if metric.WhichOneof("data") == "histogram":
                        yield from _of_histogram(metric.name, {**resource, **_labels(point.attributes)}, point, now)
                        continue
                    yield _checked(metric.name, {**resource, **_labels(point.attributes)}, point, now)


def _of_metric(metric: Any) -> Sequence[Any]:
    if not 0 < len(metric.name) <= NAME_MAX:
        raise Refusal(400, f"a metric's name of {len(metric.name)} characters")
    kind = metric.WhichOneof("data")
    if kind in ("sum", "histogram"):
        data = getattr(metric, kind)
        if data.aggregation_temporality not in (1, 2):
            raise Refusal(400, f"{metric.name}: a {kind} without temporality")
        if any(not each.start_time_unix_nano for each in data.data_points):
            raise Refusal(400, f"{metric.name}: a {kind} without its start")
    elif kind != "gauge":
        raise Refusal(400, f"{metric.name}: data of kind {kind}")
    points: Sequence[Any] = getattr(metric, kind).data_points
    if not points:
        raise Refusal(400, f"{metric.name}: no data points")
    return points


def _of_histogram(name: str, labels: Mapping[str, str], point: Any, now: datetime) -> Iterator[Point]:
    """As Prometheus has it: the values up to each bound, their number and their sum."""
    bounds, counts = list(point.explicit_bounds), list(point.bucket_counts)
    if bounds != sorted(set(bounds)) or len(counts) != len(bounds) + 1 or sum(counts) != point.count:
        raise Refusal(400, f"{name}: {counts} between {bounds} are not {point.count}")
    at = _moment(name, labels, point, now)
    for number, bound in enumerate([*map(str, bounds), "+Inf"]):
        yield Point(f"{name}_bucket", {**labels, "le": bound}, at, float(sum(counts[: number + 1])))
    yield Point(f"{name}_count", labels, at, float(point.count))
    yield Point(f"{name}_sum", labels, at, point.sum)


def _checked(name: str, labels: Mapping[str, str], point: Any, now: datetime) -> Point:
    if point.WhichOneof("value") is None:
        raise Refusal(400, f"{name}: a data point without a value")
    at = _moment(name, labels, point, now)
    value = point.as_double if point.WhichOneof("value") == "as_double" else point.as_int
    return Point(name, labels, at, float(value))


def _moment(name: str, labels: Mapping[str, str], point: Any, now: datetime) -> datetime:
    if len(labels) > LABELS_MAX:
        raise Refusal(400, f"{name}: {len(labels)} labels")
    at = EPOCH + timedelta(microseconds=point.time_unix_nano // 1_000)
    if not now - PAST <= at <= now + FUTURE:
        raise Refusal(400, f"{name}: a data point of {at}")
    return at


def _labels(attributes: Any) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in attributes:
        if not each.key or each.key in found or each.value.WhichOneof("value") != "string_value":
            raise Refusal(400, f"the attribute {each.key!r}: empty, twice, or no text")
        found[each.key] = each.value.string_value
    return found


def _check_signature(request: Request, now: datetime, signer: Credentials, region: str) -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html"""
    stated = request.headers.get("authorization", "")
    kind, _, rest = stated.partition(" ")
    parts = dict(each.strip().partition("=")[::2] for each in rest.split(","))
    if kind != SIGNED or parts.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise Refusal(403, "MissingAuthenticationToken")
    key, date, *scope = parts["Credential"].split("/")
    if key != signer.access_key or scope != [region, "monitoring", "aws4_request"]:
        raise Refusal(403, f"signed with {key} for {scope}")
    moment = request.headers.get("x-amz-date", "")
    signed_at = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if not moment.startswith(date) or abs(now - signed_at) > SKEW:
        raise Refusal(403, f"signed at {moment}")
    if signer.token != request.headers.get("x-amz-security-token"):
        raise Refusal(403, "the session token is not the signer's")
    names = parts["SignedHeaders"].split(";")
    if not {"host", "x-amz-date"} <= set(names):
        raise Refusal(403, f"signs only {names}")
    expected = _signature(request, names, moment, "/".join([date, *scope]), signer.secret_key)
    if not hmac.compare_digest(expected, parts["Signature"]):
        raise Refusal(403, "SignatureDoesNotMatch")


def _signature(request: Request, names: Sequence[str], moment: str, scope: str, secret: str) -> str:
    url = urlsplit(request.path)
    lines = [request.method, url.path, url.query]
    lines += [f"{name}:{' '.join(request.headers[name].split())}" for name in names]
    lines += ["", ";".join(names), hashlib.sha256(request.body).hexdigest()]
    to_sign = "\n".join([SIGNED, moment, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, to_sign.encode(), "sha256").hexdigest()


@dataclass
class OtlpService:
    """`taken`: all points; `requests`: what came, taken or not."""

    url: str
    signer: Credentials | None
    region: str
    taken: list[Point] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """What it says next, instead of what is right."""
    holds: Event = field(default_factory=Event)
    """Set: answers at once. Cleared: answers nothing until it is set."""

    def answer(self, request: Request) -> tuple[int, bytes]:
        self.requests.append(request)
        self.holds.wait()
        if self.answers:
            return self.answers.pop(0)
        try:
            self.taken += points_of(request, datetime.now(UTC), self.signer, self.region)
        except Refusal as refused:
            self.refusals.append(str(refused))
            return refused.status, str(refused).encode()
        return 200, b"{}"

    def values(self, name: str) -> dict[tuple[str, str], float]:
        """The values by stream and shard; an empty text for what a point does not have."""
        return {
            (
                each.labels.get("messaging.destination.name", ""),
                each.labels.get("messaging.destination.partition.id", ""),
            ): each.value
            for each in self.taken
            if each.name == name
        }


@contextmanager
def otlp_service(signer: Credentials | None = None, region: str = "eu-west-1") -> Iterator[OtlpService]:
    """Runs on a free port of loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, said = service.answer(Request("POST", self.path, headers, body))
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Nothing: the test has the requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = OtlpService(f"http://127.0.0.1:{server.server_address[1]}", signer, region)
    service.holds.set()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield service
    finally:
        service.holds.set()
        server.shutdown()
        thread.join()
        server.server_close()
