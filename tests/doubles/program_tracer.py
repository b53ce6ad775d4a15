"""A program's tracer provider, with the spans that have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext


class ProgramTracer:
    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self, kind: trace.SpanKind | None = None) -> Sequence[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if kind in (None, span.kind)]

    @contextmanager
    def span(self, name: str = "request") -> Iterator[SpanContext]:
        """A span of the program's own, as the current one."""
        with self.provider.get_tracer("program").start_as_current_span(name) as span:
            yield span.get_span_context()


@contextmanager
def a_program_tracer() -> Iterator[ProgramTracer]:
    """Sets the provider, which a process can do only once, and takes it back."""
    program = ProgramTracer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", program.provider)
        yield program


def attributes(span: ReadableSpan) -> Mapping[str, object]:
    return dict(span.attributes or {})


def linked(span: ReadableSpan) -> list[tuple[str, str]]:
    """The trace and span that each link names, in hex."""
    return [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in span.links]
