"""The spans of a producer's PutRecords calls, by OpenTelemetry's conventions for messaging, with links to the spans in
which the program has put the records.

A record has no room for a context beside its data, so the context of this span goes nowhere, and its kind is CLIENT:
https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/#span-kind. Import this only if the program has
imported OpenTelemetry's API (`tracing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Tracer

from sublet.decisions.putting.outbox import QueuedRecord
from sublet.decisions.putting.producing import PutCall
from sublet.metric_names import MESSAGING_SYSTEM, Attribute
from sublet.ports import Log
from sublet.protocol.records import PutRefused
from sublet.protocol.stream_info import PutRecord
from sublet.putting.tracing import Put
from sublet.system.handler_spans import (
    LINKS_MAX,
    MESSAGE_COUNT,
    OPERATION_NAME,
    OPERATION_TYPE,
    ProgramTracer,
    note_failure,
)
from sublet.system.log_once import WarnedOnce

INCOMPLETE = "a PutRecords call has no span, or not all of it"

SEND = "send"
"""The operation's name and type."""

RECORDS_REFUSED = "sublet.records_refused"
"""How many stream records of the call Kinesis has refused; they are sent again. The conventions have no attribute."""


class SendSpans:
    """Makes the spans. A fault of the tracer is logged once by its type, and changes nothing for the records."""

    def __init__(self, stream: str, log: Log) -> None:
        self._stream = stream
        self._tracer = ProgramTracer()
        self._warned = WarnedOnce(log)

    def current(self) -> SpanContext | None:
        context = trace.get_current_span().get_span_context()
        return context if context.is_valid else None

    def sent(self, call: PutCall, put: Put) -> Sequence[PutRecord | PutRefused]:
        span = self._begun([record for entry in call.entries for record in entry.user_records])
        if span is None:
            return put()
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                answers = put()
        except BaseException as failure:
            self._end(span, type(failure).__qualname__)
            raise
        refused = [answer for answer in answers if isinstance(answer, PutRefused)]
        self._end(span, refused[0].code if refused else None, len(refused))
        return answers

    def _begun(self, records: Sequence[QueuedRecord]) -> Span | None:
        try:
            tracer = self._tracer.get()
            return None if tracer is None else self._span(tracer, records)
        except Exception as fault:  # noqa: BLE001 - no trace is worth a record
            self._warned.warn(INCOMPLETE, fault)
            return None

    def _span(self, tracer: Tracer, records: Sequence[QueuedRecord]) -> Span:
        """A child of the span in which all records were put. If there are several, it has links alone."""
        put_in = _contexts(records)
        parent = trace.set_span_in_context(NonRecordingSpan(put_in[0]), Context()) if len(put_in) == 1 else Context()
        attributes: dict[str, str | int] = {
            OPERATION_NAME: SEND,
            OPERATION_TYPE: SEND,
            MESSAGING_SYSTEM[0]: MESSAGING_SYSTEM[1],
            Attribute.STREAM.otlp: self._stream,
            MESSAGE_COUNT: len(records),
        }
        return tracer.start_span(
            f"{SEND} {self._stream}", parent, SpanKind.CLIENT, attributes, [Link(each) for each in put_in]
        )

    def _end(self, span: Span, error: str | None, refused: int = 0) -> None:
        try:
            if error is not None:
                note_failure(span, error, {RECORDS_REFUSED: refused} if refused else None)
            span.end()
        except Exception as fault:  # noqa: BLE001 - a span processor of the program raised
            self._warned.warn(INCOMPLETE, fault)


def _contexts(records: Sequence[QueuedRecord]) -> Sequence[SpanContext]:
    """The different contexts in which the records were put, in their order; LINKS_MAX at most."""
    found: dict[int, SpanContext] = {}
    for record in records:
        if isinstance(record.trace, SpanContext):
            found.setdefault(record.trace.span_id, record.trace)
            if len(found) >= LINKS_MAX:
                break
    return list(found.values())
