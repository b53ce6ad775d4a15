"""The spans of handler calls, by OpenTelemetry's conventions for messaging: one span for each batch, of the kind
CONSUMER, with links to the contexts that its records carry.

https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/. Import this only if the program has imported
OpenTelemetry's API (`tracing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from sublet import __version__
from sublet.metric_names import ERROR_TYPE, MESSAGING_SYSTEM, NAMESPACE, Attribute
from sublet.ports import Log
from sublet.protocol.records import UserRecord
from sublet.protocol.stream_key import own_id, stream_key_of
from sublet.settings import LogExceptions, Settings
from sublet.system.log_once import WarnedOnce

if TYPE_CHECKING:
    from sublet.system.trace_contexts import TraceContexts

PROCESS = "process"
"""The operation's name and type."""

OPERATION_NAME, OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
MESSAGE_COUNT = "messaging.batch.message_count"
ATTEMPT = "sublet.handler_attempt"
"""Of a call that repeats records: 2 at the first repetition. The conventions have no attribute for it."""

LINKS_MAX = 128
"""The SDK keeps so many links of a span, unless OTEL_SPAN_LINK_COUNT_LIMIT says otherwise."""

INCOMPLETE = "a handler call has no span, or not all of it"

NO_PROVIDER = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
"""What there is until a program sets a tracer provider, or if it sets one that does nothing."""


class ProgramTracer:
    """The tracer of the program's provider, and None while there is no provider. Thread-safe."""

    def __init__(self) -> None:
        self._made: tuple[object, Tracer] | None = None

    def get(self) -> Tracer | None:
        provider = trace.get_tracer_provider()
        if type(provider) in NO_PROVIDER:  # isinstance of an abstract class takes three times as long
            return None
        if self._made is None or self._made[0] is not provider:
            self._made = provider, provider.get_tracer(NAMESPACE, __version__)
        return self._made[1]


class HandlerSpans:
    """Begins the spans. A fault of the tracer, or of the program's own functions within it, is logged once by its type,
    and the call goes on without a span.
    """

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._tracer = ProgramTracer()
        self._contexts = _contexts(settings, log)
        self._warned = WarnedOnce(log)

    def begin_call(self, shard_id: str, records: Sequence[UserRecord], attempt: int) -> HandlerSpan | None:
        try:
            tracer = self._tracer.get()
            return None if tracer is None else self._begun(tracer, shard_id, records, attempt)
        except Exception as fault:  # noqa: BLE001 - no trace is worth a record
            self._warned.warn(INCOMPLETE, fault)
            return None

    def _begun(self, tracer: Tracer, shard_id: str, records: Sequence[UserRecord], attempt: int) -> HandlerSpan:
        several = stream_key_of(shard_id)
        stream = self._settings.stream if several is None else several.stream
        attributes: dict[str, str | int] = {
            OPERATION_NAME: PROCESS,
            OPERATION_TYPE: PROCESS,
            MESSAGING_SYSTEM[0]: MESSAGING_SYSTEM[1],
            Attribute.STREAM.otlp: stream,
            Attribute.SHARD.otlp: own_id(shard_id),
            Attribute.APPLICATION.otlp: self._settings.application,
            MESSAGE_COUNT: len(records),
        }
        if attempt > 1:
            attributes[ATTEMPT] = attempt
        span = tracer.start_span(
            f"{PROCESS} {stream}", kind=SpanKind.CONSUMER, attributes=attributes, links=self._links(records)
        )
        return HandlerSpan(span, self._settings.log_exceptions, self._warned)

    def _links(self, records: Sequence[UserRecord]) -> Sequence[Link]:
        if self._contexts is None:
            return ()
        return [Link(context) for context in self._contexts.of(records, LINKS_MAX)]


def _contexts(settings: Settings, log: Log) -> TraceContexts | None:
    if settings.trace_context is None:
        return None
    from sublet.system.trace_contexts import TraceContexts  # noqa: PLC0415 - loads propagators

    return TraceContexts(settings.trace_context, log, settings.log_exceptions)


class HandlerSpan:
    """The CallSpan port: a span that is current while the handler runs, in whichever thread that is. An async handler's
    coroutine takes the thread's context along to its event loop.
    """

    def __init__(self, span: Span, log_exceptions: LogExceptions, warned: WarnedOnce) -> None:
        self._span, self._log_exceptions, self._warned = span, log_exceptions, warned

    def around(self, work: Callable[[], None]) -> Callable[[], None]:
        span = self._span

        def traced() -> None:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                work()

        return traced

    def end(self, failure: BaseException | None) -> None:
        """Its error is the exception's type; the exception itself is an event of the span only if the log may have its
        text.
        """
        try:
            if failure is not None:
                note_failure(self._span, type(failure).__qualname__)
                if self._log_exceptions is LogExceptions.FULL:
                    self._span.record_exception(failure)
            self._span.end()
        except Exception as fault:  # noqa: BLE001 - a span processor of the program raised
            self._warned.warn(INCOMPLETE, fault)


def note_failure(span: Span, error: str, more: Mapping[str, int] | None = None) -> None:
    span.set_attributes({ERROR_TYPE: error, **(more or {})})
    span.set_status(Status(StatusCode.ERROR, error))
