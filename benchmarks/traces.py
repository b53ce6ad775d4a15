"""What spans cost a handler call and a put: where the program has no OpenTelemetry, where its provider drops a span,
and where it keeps one.

New processes in turns, in microseconds of CPU. A call has 100 records with a W3C context each in their JSON; ten
contexts differ. The spans go nowhere: what an exporter takes is the program's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from statistics import median

import benchmarks
from benchmarks.peers import ROOT

ROUNDS = benchmarks.rounds(11)
GOAL_ABSENT_MICROSECONDS = 0.3
"""Of a call or a put in a program without OpenTelemetry."""

PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
trace.set_tracer_provider(TracerProvider(sampler={}))
"""
WAYS: Mapping[str, tuple[str, str | None]] = {
    "no OpenTelemetry": ("", None),
    "its API alone": ("from opentelemetry import trace", None),
    "a span that is dropped": (PROVIDER.format("ALWAYS_OFF"), None),
    "a span": (PROVIDER.format("ALWAYS_ON"), None),
    "a span with links": (PROVIDER.format("ALWAYS_ON"), "json:traceparent"),
}
"""What a process runs first, and its setting `trace_context`."""

PROGRAM = """
import json, sys, time
from datetime import datetime, UTC
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.putting.tracing import PutTraces
from sublet.settings import Settings
from sublet.system.python_log import PythonLog
from sublet.system.tracing import traces_of
log, where = PythonLog("sublet"), json.loads(sys.argv[1])
traces = traces_of(Settings(application="audit", stream="orders", trace_context=where), log)
puts = PutTraces("orders", log)
def record(number):
    context = f"00-0af7651916cd43dd8448eb211c80319c-{number % 10 + 1:016x}-01"
    data = json.dumps({"id": number, "name": "x" * 100, "traceparent": context}).encode()
    return UserRecord(data, "key", 0, StreamRecord(str(number), data, "key", datetime(2026, 1, 31, tzinfo=UTC)))
records, work = [record(number) for number in range(100)], lambda: None
def call():
    span = traces.begin_call("shardId-000000000000", records, 1)
    (work if span is None else span.around(work))()
    if span is not None:
        span.end(None)
def microseconds(what, times):
    what()
    began = time.process_time()
    for _ in range(times):
        what()
    return (time.process_time() - began) * 1e6 / times
times = 200 if where else 2_000 if "opentelemetry.sdk.trace" in sys.modules else 200_000
print(json.dumps([microseconds(call, times), microseconds(puts.current, 20_000)]))
"""

Found = Mapping[str, tuple[float, float]]
"""Microseconds of a handler call, and of a put, by what the program has."""


def measure() -> Found:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, (first, where) in WAYS.items():
            taken[name].append(_run(first, where))
    return {name: (median(call for call, _ in each), median(put for _, put in each)) for name, each in taken.items()}


def _run(first: str, where: str | None) -> tuple[float, float]:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(ROOT / "layers/sublet/python")}
    run = subprocess.run(
        [sys.executable, "-c", first + PROGRAM, json.dumps(where)],
        check=True,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    call, put = json.loads(run.stdout)
    return call, put


def report(found: Found) -> bool:
    """Print the table; True if the goal is met."""
    print(f"traces: microseconds of CPU, medians of {ROUNDS} new processes")
    print(f"  {'':<26}{'a call':>10}{'a put':>10}")
    for name, (call, put) in found.items():
        print(f"  {name:<26}{call:>10.2f}{put:>10.2f}")
    worst = max(found["no OpenTelemetry"])
    met = worst <= GOAL_ABSENT_MICROSECONDS
    print(f"goal: {worst:.2f} where there is none, at most {GOAL_ABSENT_MICROSECONDS:g}: {'met' if met else 'MISSED'}")
    return met
