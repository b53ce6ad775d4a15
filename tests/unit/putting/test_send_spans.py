"""A producer's PutRecords call has a span, with links to the spans in which its records were put."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from sublet import Producer
from sublet.errors import StreamUnavailable
from sublet.protocol.records import NewRecord, PutRefused
from sublet.testing.memory import FakeClock, MemoryAccount, MemoryLog
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.program_tracer import ProgramTracer, a_program_tracer, attributes


@pytest.fixture
def program() -> Iterator[ProgramTracer]:
    with a_program_tracer() as program:
        yield program


class Orders:
    """A stream's account. `refuse`: what to answer, or to raise, instead of the stream's answers, one for each call."""

    def __init__(self, *refuse: Any) -> None:
        clock = FakeClock()
        self.account = MemoryAccount(clock=clock, tasks=TurnTaking(clock))
        self.account.create("orders", 1)
        self._writer, self._refuse = self.account.writing("orders"), list(refuse)
        self.account.writing = lambda _: self  # type: ignore[method-assign,assignment,return-value]

    def put(self, records: Sequence[NewRecord]) -> Sequence[Any]:
        answer = self._refuse.pop(0) if self._refuse else None
        if isinstance(answer, Exception):
            raise answer
        return self._writer.put(records) if answer is None else [answer] * len(records)

    def producer(self, **options: Any) -> Producer:
        return Producer("orders", account=self.account, **options)


def test_a_call_has_a_span_that_links_to_each_span_in_which_records_were_put(program: ProgramTracer) -> None:
    puts = []
    with Orders().producer() as producer:
        for _ in range(2):
            with program.span() as context:
                puts.append(context)
                producer.put("key", b"1")
                producer.put("key", b"2")
    [span] = program.spans(SpanKind.CLIENT)
    assert span.name == "send orders"
    assert attributes(span) == {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.system": "aws_kinesis",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 4,
    }
    assert [link.context for link in span.links] == puts
    assert span.parent is None
    assert span.status.status_code is StatusCode.UNSET


def test_a_call_for_one_span_is_its_child(program: ProgramTracer) -> None:
    with Orders().producer() as producer, program.span() as context:
        producer.put("key", b"1")
    [span] = program.spans(SpanKind.CLIENT)
    assert span.parent == context
    assert [link.context for link in span.links] == [context]


def test_refused_records_are_the_spans_error_and_the_next_call_has_another(program: ProgramTracer) -> None:
    throttled = PutRefused("ProvisionedThroughputExceededException", "Rate exceeded", passes=True)
    with Orders(throttled).producer(aggregation_enabled=False) as producer:
        producer.put("a", b"1")
        producer.put("b", b"2")
    refused, stored = program.spans()
    assert refused.status.status_code is StatusCode.ERROR
    assert attributes(refused)["error.type"] == "ProvisionedThroughputExceededException"
    assert attributes(refused)["sublet.records_refused"] == 2
    assert stored.status.status_code is StatusCode.UNSET


def test_a_call_that_raises_has_its_error_type(program: ProgramTracer) -> None:
    with Orders(StreamUnavailable("orders", "PutRecords", "down")).producer() as producer:
        producer.put("a", b"1")
    failed, stored = program.spans()
    assert attributes(failed)["error.type"] == "StreamUnavailable"
    assert "error.type" not in attributes(stored)


@pytest.mark.usefixtures("program")
def test_a_tracer_that_fails_loses_no_record_and_is_logged_once(program: ProgramTracer) -> None:
    class Broken:
        def should_sample(self, *_: Any, **__: Any) -> Any:
            raise OSError("no sampler")

    program.provider.sampler = Broken()  # type: ignore[assignment]
    orders = Orders()
    with orders.producer() as producer:
        futures = [producer.put("a", b"1"), producer.put("a", b"2")]
        producer.flush()
        futures.append(producer.put("a", b"3"))
    assert all(future.result().sequence_number for future in futures)
    log = orders.account.log
    assert isinstance(log, MemoryLog)
    assert [line.fields["error"] for line in log.lines if line.level == "warning"] == ["OSError"]
