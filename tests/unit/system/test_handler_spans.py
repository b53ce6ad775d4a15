"""A handler call has a span, if the program has a tracer provider, with links to what its records carry."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from subprocess import run
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from sublet import Batch, UserRecord
from sublet.settings import LogExceptions, Settings, StreamChoice
from sublet.system.tracing import traces_of
from sublet.testing import MemoryConsumer, consume
from sublet.testing.memory import MemoryLog

from examples.traced import traced
from tests.doubles.engine_world import MINUTE, NO_WAITING, EngineWorld
from tests.doubles.program_tracer import ProgramTracer, a_program_tracer, attributes, linked

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
W3C = f"00-{TRACE}-{SPAN}-01"
X_RAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
X_RAY_IDS = ("5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8")


@pytest.fixture
def program() -> Iterator[ProgramTracer]:
    with a_program_tracer() as program:
        yield program


def ignore(_: Batch) -> None:
    pass


def of(number: int, **more: object) -> tuple[str, bytes]:
    return f"key-{number}", json.dumps({"id": number, **more}).encode()


def test_each_call_has_a_consumer_span_by_the_messaging_conventions(program: ProgramTracer) -> None:
    consume(ignore, [of(n) for n in range(5)], stream="orders", application="audit", batch_size=2)
    spans = program.spans()
    assert [span.name for span in spans] == ["process orders"] * 3
    assert [attributes(span)["messaging.batch.message_count"] for span in spans] == [2, 2, 1]
    assert spans[0].kind is SpanKind.CONSUMER
    assert attributes(spans[0]) == {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.system": "aws_kinesis",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "shardId-000000000000",
        "messaging.consumer.group.name": "audit",
        "messaging.batch.message_count": 2,
    }
    assert all(span.status.status_code is StatusCode.UNSET and span.parent is None for span in spans)
    assert spans[0].instrumentation_scope is not None
    assert spans[0].instrumentation_scope.name == "sublet"


def test_the_handlers_own_spans_are_children_of_its_calls(program: ProgramTracer) -> None:
    def handle(_: Batch) -> None:
        with program.span("of the handler"):
            pass

    async def handle_async(_: Batch) -> None:
        with program.span("of the handler"):
            pass

    for each in (handle, handle_async):
        consume(each, [of(1)])
    inner, outer, inner_async, outer_async = program.spans()
    assert inner.parent == outer.context
    assert inner_async.parent == outer_async.context


@pytest.mark.parametrize("log_exceptions", LogExceptions)
def test_a_call_that_raises_has_an_error_type_and_a_text_only_as_the_log_has(
    program: ProgramTracer, log_exceptions: LogExceptions
) -> None:
    calls: list[Batch] = []

    def handle(batch: Batch) -> None:
        calls.append(batch)
        if len(calls) == 1:
            raise LookupError("order 7 of Ada")

    consume(handle, [of(1)], log_exceptions=log_exceptions)
    failed, returned = program.spans()
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "LookupError"
    assert attributes(failed)["error.type"] == "LookupError"
    assert attributes(returned)["sublet.handler_attempt"] == 2
    assert "error.type" not in attributes(returned)
    assert ("Ada" in str([event.attributes for event in failed.events])) is (log_exceptions is LogExceptions.FULL)


def test_a_call_that_is_given_up_has_a_span_when_it_is(program: ProgramTracer) -> None:
    world = EngineWorld(replace(NO_WAITING, handler_timeout=MINUTE))
    world.ports_with["traces"] = traces_of(world.settings, world.log)
    world.shards.put("key", b"{}", 0)
    world.handler.script = lambda _: world.tasks.sleep(5 * MINUTE)
    world.window()
    [span] = program.spans()
    assert attributes(span)["error.type"] == "HandlerOverdue"


@pytest.mark.parametrize(
    ("where", "data", "links"),
    [
        ("json:traceparent", {"traceparent": W3C}, [(TRACE, SPAN)]),
        ("json:headers.trace", {"headers": {"trace": X_RAY}}, [X_RAY_IDS]),
        ("json:headers", {"headers": {"traceparent": W3C, "tracestate": "a=b"}}, [(TRACE, SPAN)]),
        ("json:headers", {"headers": {"x-amzn-trace-id": X_RAY}}, [X_RAY_IDS]),
        ("json:traceparent", {"other": W3C}, []),
        ("json:headers.trace", {"headers": 3}, []),
        ("json:traceparent", {"traceparent": None}, []),
        ("json:traceparent", {"traceparent": ""}, []),
    ],
)
def test_a_span_links_to_the_context_in_a_field(
    program: ProgramTracer, where: str, data: Mapping[str, Any], links: list[tuple[str, str]]
) -> None:
    consumer = MemoryConsumer(trace_context=where)
    consumer.put(of(1, **data), ("key", b"no JSON"))
    consumer.consume(ignore)
    [span] = program.spans()
    assert linked(span) == links
    assert not consumer.log.messages("warning")


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ("00-not-a-context", "ValueError"),
        ("Root=1-5759e988-bd862e3fe1be46a994272793", "ValueError"),
        (f"00-{'0' * 32}-{SPAN}-01", "ValueError"),
        (7, "TypeError"),
    ],
)
def test_value_that_is_no_context_is_logged_once_and_others_are_linked(
    program: ProgramTracer, found: object, error: str
) -> None:
    consumer = MemoryConsumer(trace_context="json:trace")
    consumer.put(of(1, trace=found), of(2, trace=W3C), of(3, trace=found))
    consumer.consume(ignore)
    [span] = program.spans()
    assert linked(span) == [(TRACE, SPAN)]
    [line] = [line for line in consumer.log.lines if line.level == "warning"]
    assert line.fields["trace_context"] == "json:trace"
    assert line.fields["error"] == error


def by_its_key(record: UserRecord) -> str | None:
    """Named by a setting."""
    return {"key-1": W3C, "key-2": W3C, "key-3": X_RAY}.get(record.partition_key or "")


def that_raises(record: UserRecord) -> str:
    raise ZeroDivisionError(f"no context in {record.data!r}")


def test_a_function_says_where_the_context_is_and_each_is_linked_once(program: ProgramTracer) -> None:
    consume(ignore, [of(n) for n in range(5)], trace_context=f"{__name__}:by_its_key")
    [span] = program.spans()
    assert linked(span) == [(TRACE, SPAN), X_RAY_IDS]


@pytest.mark.parametrize("log_exceptions", LogExceptions)
def test_a_function_that_raises_is_logged_once_by_its_name_and_fails_no_call(
    program: ProgramTracer, log_exceptions: LogExceptions
) -> None:
    where = f"{__name__}:that_raises"
    consumer = MemoryConsumer(trace_context=where, log_exceptions=log_exceptions, batch_size=2)
    consumer.put(*[of(n) for n in range(5)])
    assert consumer.consume(ignore).retries == 0
    assert len(program.spans()) == 3
    [line] = [line for line in consumer.log.lines if line.level == "warning"]
    assert line.fields["trace_context"] == where
    assert line.fields["error"] == "ZeroDivisionError"
    assert ("problem" in line.fields) is (log_exceptions is LogExceptions.FULL), "it may quote the record"


@pytest.mark.parametrize("where", ["no.such.module:find", f"{__name__}:no_such_function"])
def test_a_function_that_cannot_be_loaded_is_logged_once(program: ProgramTracer, where: str) -> None:
    consumer = MemoryConsumer(trace_context=where, batch_size=1)
    consumer.put(of(1), of(2))
    assert consumer.consume(ignore).retries == 0
    assert [linked(span) for span in program.spans()] == [[], []]
    [line] = [line for line in consumer.log.lines if line.level == "warning"]
    assert line.fields["trace_context"] == where


def test_no_more_contexts_are_looked_for_than_a_span_keeps(program: ProgramTracer) -> None:
    records = [of(n, traceparent=f"00-{TRACE}-{n + 1:016x}-01") for n in range(200)]
    consume(ignore, records, trace_context="json:traceparent")
    [span] = program.spans()
    assert len(span.links) == 128
    assert span.dropped_links == 0


def test_there_are_no_spans_if_the_setting_is_off(program: ProgramTracer) -> None:
    consume(ignore, [of(1)], traces="off")
    assert not program.spans()


def test_a_provider_counts_from_the_call_after_it_is_set() -> None:
    settings = Settings(application="orders", stream="events")
    traces = traces_of(settings, MemoryLog())
    assert traces is not None
    [given] = [batch.records for batch in consume(ignore, [of(1)]).batches]
    assert traces.begin_call("shardId-000000000000", given, 1) is None
    with a_program_tracer() as program:
        span = traces.begin_call("shardId-000000000000", given, 1)
        assert span is not None
        span.end(None)
        assert [each.name for each in program.spans()] == ["process events"]
    assert traces.begin_call("shardId-000000000000", given, 1) is None


def test_a_tracer_that_fails_is_logged_once_and_fails_no_call(program: ProgramTracer) -> None:
    class Broken:
        def should_sample(self, *_: Any, **__: Any) -> Any:
            raise OSError("no sampler")

    program.provider.sampler = Broken()  # type: ignore[assignment]
    consumer = MemoryConsumer(batch_size=1)
    consumer.put(of(1), of(2))
    assert consumer.consume(ignore).retries == 0
    [line] = [line for line in consumer.log.lines if line.level == "warning"]
    assert line.fields["error"] == "OSError"


def test_a_call_that_is_not_sampled_is_made_as_any_other(program: ProgramTracer) -> None:
    program.provider.sampler = ALWAYS_OFF
    assert consume(ignore, [of(1)]).retries == 0
    assert not program.spans()


def test_a_shard_of_several_streams_is_named_by_its_stream(program: ProgramTracer) -> None:
    settings = Settings(application="audit", streams=StreamChoice.parse("orders,returns"))
    traces = traces_of(settings, MemoryLog())
    assert traces is not None
    span = traces.begin_call("123456789012:returns:1700000000:shardId-000000000007", [], 1)
    assert span is not None
    span.end(None)
    [ended] = program.spans()
    assert ended.name == "process returns"
    assert attributes(ended)["messaging.destination.partition.id"] == "shardId-000000000007"


ABSENT = """
import sys
from sublet.testing import consume
seen = []
consume(lambda batch: seen.extend(batch.records), [("key", b"{}")], trace_context="json:traceparent")
assert len(seen) == 1
print([name for name in sys.modules if name.startswith("opentelemetry") or name == "sublet.system.handler_spans"])
"""


@pytest.mark.slow
def test_a_program_without_a_tracer_imports_nothing_of_it() -> None:
    """The API is installed here, so that only not importing it keeps it out."""
    assert trace.__name__ in sys.modules
    done = run([sys.executable, "-c", ABSENT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_example_links_the_consumers_span_to_what_was_put(program: ProgramTracer) -> None:
    traced.main()
    received = [span.context for span in program.spans() if span.name == "order received"]
    [call] = program.spans(SpanKind.CONSUMER)
    [put] = program.spans(SpanKind.CLIENT)
    assert [link.context for link in put.links] == received
    assert [link.context.span_id for link in call.links] == [context.span_id for context in received]
    assert [span.parent for span in program.spans() if span.name == "order checked"] == [call.context] * 3
