"""Puts records and reads them, in a process that one tracer watches: `consume.py <tracer> <polling|fan_out> <stream>`.

Prints as JSON what was read, and the spans with errors of AWS' calls. Runs in an environment with the tracers, which
has none of the test suite's packages. No tracer sends anything: their agents' addresses are a port without a listener.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

NOWHERE = "127.0.0.1:9"
DATA = [
    json.dumps([{"id": 1}, {"id": 2}]).encode(),
    json.dumps({"id": 3}).encode(),
    b"\x1f\x8b\x08\x00zz",
    b"[]",
    b"null",
    b'{"a":1}\n',
]
"""Also what a tracer may take for a message of its own: some add their context to JSON objects."""

SPANS: list[str] = []
ERRORS: list[str] = []


def note(name: object, *, is_error: bool) -> None:
    SPANS.append(str(name))
    if is_error:
        ERRORS.append(str(name))


def nothing() -> None:
    pass


def ddtrace() -> None:
    os.environ.update(
        DD_TRACE_AGENT_URL=f"http://{NOWHERE}",
        DD_INSTRUMENTATION_TELEMETRY_ENABLED="false",
        DD_REMOTE_CONFIGURATION_ENABLED="false",
        DD_DATA_STREAMS_ENABLED="true",
    )
    from ddtrace import patch
    from ddtrace.trace import TraceFilter, tracer

    class Keep(TraceFilter):
        def process_trace(self, trace: Any) -> None:
            for span in trace:
                note(span.resource or span.name, is_error=bool(span.error))

    patch(botocore=True)
    tracer.configure(trace_processors=[Keep()])


def opentelemetry() -> None:
    from opentelemetry import trace
    from opentelemetry.instrumentation.botocore import BotocoreInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class Keep(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            for span in spans:
                note(span.name, is_error=span.status.status_code.name == "ERROR")
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Keep()))
    trace.set_tracer_provider(provider)
    BotocoreInstrumentor().instrument()


def xray() -> None:
    from aws_xray_sdk.core import patch, xray_recorder

    xray_recorder.configure(context_missing="IGNORE_ERROR", sampling=False, daemon_address=NOWHERE)
    end = xray_recorder.end_subsegment

    def ended(end_time: Any = None) -> None:
        span = xray_recorder.current_subsegment()
        if span is not None:
            note(span.name, is_error=bool(getattr(span, "fault", False) or getattr(span, "error", False)))
        end(end_time)

    xray_recorder.end_subsegment = ended
    patch(["botocore"])
    begin = threading.Thread.run

    def run(self: threading.Thread) -> None:  # a segment for each thread, without which it records nothing
        with xray_recorder.in_segment("thread"):
            begin(self)

    threading.Thread.run = run  # type: ignore[method-assign]


def sentry() -> None:
    import sentry_sdk

    def keep(event: Any, _: object) -> None:
        for span in event.get("spans", ()):
            note(span.get("description"), is_error=span.get("status") == "internal_error")

    def keep_error(event: Any, _: object) -> None:
        note(f"event {event.get('exception') or event.get('logentry')}"[:200], is_error=True)

    sentry_sdk.init(
        dsn=f"http://key@{NOWHERE}/1",
        traces_sample_rate=1.0,
        before_send_transaction=keep,
        before_send=keep_error,
    )
    sentry_sdk.start_transaction(name="consume").__enter__()


def newrelic() -> None:
    os.environ.update(NEW_RELIC_DEVELOPER_MODE="true", NEW_RELIC_LICENSE_KEY="x" * 40)
    import newrelic.agent

    newrelic.agent.initialize()
    newrelic.agent.register_application(timeout=0)


def elastic() -> None:
    import elasticapm

    client = elasticapm.Client(
        service_name="consume", server_url=f"http://{NOWHERE}", cloud_provider="none", central_config=False
    )
    queue = client.queue

    def kept(kind: Any, data: Any, *rest: Any, **named: Any) -> None:
        if kind == "span":
            note(data["name"], is_error=data.get("outcome") == "failure")
        queue(kind, data, *rest, **named)

    client.queue = kept
    elasticapm.instrument()
    client.begin_transaction("consume")


TRACERS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (nothing, ddtrace, opentelemetry, xray, sentry, newrelic, elastic)
}


def main(tracer: str, reading: str, name: str) -> None:
    TRACERS[tracer]()
    import boto3
    import sublet

    kinesis = boto3.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    options: dict[str, Any] = {}
    if reading == "fan_out":
        arn = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
        registered = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="traced")["Consumer"]
        options = {"reading": "fan_out", "fan_out_consumer": registered["ConsumerARN"]}
    for aggregation in (False, True):
        with sublet.Producer(name, aggregation_enabled=aggregation) as producer:
            for data in DATA:
                producer.put("key", data)
    got: list[bytes] = []
    consumer = sublet.Consumer(name, name, **options)
    consumer.create()
    with consumer:
        while len(got) < 2 * len(DATA) and (record := consumer.next(expires=20)) is not None:
            got.append(record.data)
            record.ack()
    print(
        json.dumps({"is_whole": got == DATA * 2, "got": len(got), "spans": len(SPANS), "errors": sorted(set(ERRORS))})
    )
    sys.stdout.flush()
    os._exit(0)  # a tracer may wait for its agent


if __name__ == "__main__":
    main(*sys.argv[1:])
