"""What `metrics_export=otlp` costs a function, beside the same values through OpenTelemetry's own SDK and exporter.

New processes, in turns, in milliseconds of CPU: a cold start's first request, and the next. Each sends six gauges for
each of ten shards to a collector on loopback, after boto3 is there, as in a function. The bytes are of one value, as
sent. If the SDK is missing in `.local/bench`, the figures are sublet's alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from threading import Thread

import benchmarks
from benchmarks.peers import MISSING, PYTHON, ROOT

ROUNDS = benchmarks.rounds(11)
GOAL_OF_THE_SDK = 0.5
"""The first request costs at most this part of the SDK's."""

SHARDS, GAUGES = 10, 6
VALUES = SHARDS * GAUGES

HEAD = """
import json, os, time
import boto3
boto3.client("kinesis", region_name="us-east-1"), boto3.client("dynamodb", region_name="us-east-1")
"""
BEGIN = "\ntook = [time.process_time()]\n"
OF_EMF = "import sublet.aws.ports"
"""What a function of ours loads for its metrics in the log alone, and for everything else."""

OURS = """
from datetime import timedelta
from sublet.aws.clients import MACHINE
from sublet.aws.metrics import EmfMetrics
from sublet.aws.otlp.endpoint import endpoint_of
from sublet.aws.otlp.exported_metrics import ExportedMetrics, OtlpSeries, Sending
from sublet.metric_names import Metric
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
class Nowhere:
    is_read = False
clock, endpoint = SystemClock(), endpoint_of(os.environ, MACHINE)
series = OtlpSeries("orders-audit", "orders", endpoint.temporality, clock.now(), "a1b2c3d4e5f6")
emf = EmfMetrics("orders-audit", output=Nowhere())
metrics = ExportedMetrics(emf, series, Sending(endpoint), clock, PythonLog("sublet"), timedelta(0))
used = [metric for metric in Metric if metric.elsewhere and metric.elsewhere.kind == "gauge"][:6]
for _ in range(2):
    for number in range(10):
        for metric in used:
            metrics.put(metric, 1500, shard_id=f"shardId-{number:012}")
    metrics.flush()
    took.append(time.process_time())
"""
SDK = """
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=2), export_interval_millis=1e9)
named = {"service.name": "orders-audit", "messaging.system": "aws_kinesis", "service.instance.id": "a1b2c3d4e5f6"}
provider = MeterProvider([reader], resource=Resource(named))
meter = provider.get_meter("sublet")
used = [meter.create_gauge(f"sublet.metric_{number}", unit="s") for number in range(6)]
for _ in range(2):
    for number in range(10):
        of = {
            "messaging.consumer.group.name": "orders-audit", "messaging.destination.name": "orders",
            "messaging.destination.partition.id": f"shardId-{number:012}",
        }
        for gauge in used:
            gauge.set(1.5, of)
    provider.force_flush(2000)
    took.append(time.process_time())
"""
TAIL = (
    "\nprint(json.dumps([(after - before) * 1000 for before, after in zip(took, took[1:])]), flush=True)\nos._exit(0)\n"
)

Found = dict[str, tuple[float, float, float]]
"""CPU of the first request and of the second, in milliseconds; bytes of a value as sent."""


def measure() -> Found:
    sizes: list[int] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sizes.append(len(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    programs = {"sublet": (sys.executable, HEAD + OF_EMF + BEGIN + OURS)}
    if PYTHON.exists() and _has_sdk():
        programs["OpenTelemetry's SDK, gzip"] = (str(PYTHON), HEAD + BEGIN + SDK)
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in programs}
    for number in range(ROUNDS + 1):
        for name, (python, program) in programs.items():
            first, second = _run(python, program, url)
            if number > 0:  # the first round writes bytecode
                taken[name].append((first, second, sizes[-1] / VALUES))
    server.shutdown()
    server.server_close()
    return {name: (_middle(each, 0), _middle(each, 1), _middle(each, 2)) for name, each in taken.items()}


def _middle(found: list[tuple[float, float, float]], which: int) -> float:
    return median(each[which] for each in found)


def _has_sdk() -> bool:
    asked = "import opentelemetry.exporter.otlp.proto.http, opentelemetry.sdk, boto3"
    return subprocess.run([PYTHON, "-c", asked], check=False, capture_output=True).returncode == 0


def _run(python: str, program: str, url: str) -> tuple[float, float]:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(ROOT / "layers/sublet/python"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    run = subprocess.run([python, "-c", program + TAIL], check=True, stdout=subprocess.PIPE, env=environment, text=True)
    first, second = json.loads(run.stdout)
    return first, second


def report(found: Found) -> bool:
    """Print the table; True if the goal is met, or the SDK is missing."""
    print(f"OTLP: {VALUES} values, medians of {ROUNDS} new processes")
    print(f"  {'':<28}{'first, ms':>11}{'next, ms':>10}{'bytes a value':>15}")
    for name, (first, second, size) in found.items():
        print(f"  {name:<28}{first:>11.0f}{second:>10.1f}{size:>15.0f}")
    if len(found) == 1:
        print(MISSING)
        return True
    part = found["sublet"][0] / next(first for name, (first, *_) in found.items() if name != "sublet")
    met = part <= GOAL_OF_THE_SDK
    print(f"goal: {part:.2f} of the SDK's first request, at most {GOAL_OF_THE_SDK:g}: {'met' if met else 'MISSED'}")
    return met
