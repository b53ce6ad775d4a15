"""The trace contexts that records carry, found as the setting `trace_context` says, and read by OpenTelemetry's own
propagators.

Import this only if the program has imported OpenTelemetry's API (`tracing`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sublet.errors import PayloadUnreadable
from sublet.ports import Log
from sublet.protocol.records import UserRecord
from sublet.settings import LogExceptions
from sublet.system.log_once import WarnedOnce

JSON = "json:"

TRACEPARENT = "traceparent"
X_RAY = "X-Amzn-Trace-Id"
X_RAY_ROOT = "Root="
"""What each header of X-Ray has, and none of W3C."""

FAILED = "trace_context failed for a record, so its handler call's span has no link to it"
NOT_LOADED = "trace_context cannot be loaded, so no span has links"

Find = Callable[[UserRecord], object]
"""Returns a record's context: the text of a header, a mapping of headers, a SpanContext, or None."""


class TraceContexts:
    """Finds contexts. A function that raises, or returns what is no context, is logged once by the error's type: its
    record has no link, and the handler call does not notice.
    """

    def __init__(self, where: str, log: Log, log_exceptions: LogExceptions = LogExceptions.FULL) -> None:
        self._where = where
        self._warned = WarnedOnce(log, has_text=log_exceptions is LogExceptions.FULL)
        self._find = self._loaded()

    def of(self, records: Iterable[UserRecord], most: int) -> Sequence[SpanContext]:
        """The different contexts of the records, in their order; once it has found `most`, it looks no further."""
        found: dict[tuple[int, int], SpanContext] = {}
        read: set[str] = set()
        if self._find is None:
            return ()
        for record in records:
            try:
                carried = self._find(record)
                if isinstance(carried, str):
                    if carried in read:  # one request often puts several records, and reading a header takes 10 µs
                        continue
                    read.add(carried)
                context = span_context(carried)
            except Exception as fault:  # noqa: BLE001 - the user's function may raise anything
                self._warned.warn(FAILED, fault, trace_context=self._where)
                continue
            if context is not None:
                found[context.trace_id, context.span_id] = context
                if len(found) == most:
                    break
        return list(found.values())

    def _loaded(self) -> Find | None:
        if self._where.startswith(JSON):
            return field_of(self._where.removeprefix(JSON).split("."))
        module, _, name = self._where.partition(":")
        try:
            find: Find = getattr(importlib.import_module(module), name)
        except Exception as fault:  # noqa: BLE001 - importing runs the user's code
            self._warned.warn(NOT_LOADED, fault, trace_context=self._where)
            return None
        return find


def field_of(path: Sequence[str]) -> Find:
    """Returns a function that finds a field of a record's data, by the names of the objects around it. A record without
    it, or whose data cannot be decoded, has no context.
    """

    def find(record: UserRecord) -> object:
        try:
            found = record.decoded()
        except PayloadUnreadable:
            return None
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    return find


def span_context(found: object) -> SpanContext | None:
    """What a record carries, as a context. None if it carries nothing: None, an empty text, a mapping without a
    header. Raises TypeError and ValueError.
    """
    match found:
        case None | "":
            return None
        case SpanContext():
            return found if found.is_valid else None
        case str():
            return _of_header(found.strip())
        case Mapping():
            return _of_headers({str(name): str(value) for name, value in found.items()})
    raise TypeError(f"it is of type {type(found).__name__}: a text, a mapping of headers, a SpanContext or None")


def _of_header(text: str) -> SpanContext:
    if X_RAY_ROOT in text:
        context = _read(_x_ray(), {X_RAY: text})
    else:
        context = _read(TraceContextTextMapPropagator(), {TRACEPARENT: text})
    if context is None:
        raise ValueError("it is neither a traceparent of W3C nor a header of X-Ray with Root and Parent")
    return context


def _of_headers(headers: Mapping[str, str]) -> SpanContext | None:
    """By the propagators that the program has set (W3C's by default), or else by X-Ray's name."""
    context = _valid(propagate.extract(headers, Context()))
    if context is not None:
        return context
    text = next((value for name, value in headers.items() if name.lower() == X_RAY.lower()), None)
    return None if text is None else _of_header(text)


def _read(propagator: TextMapPropagator, headers: Mapping[str, str]) -> SpanContext | None:
    return _valid(propagator.extract(headers, Context()))


def _valid(context: Context) -> SpanContext | None:
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None


@cache
def _x_ray() -> TextMapPropagator:
    """Raises ImportError without the extra `traces`."""
    try:
        from opentelemetry.propagators.aws import AwsXRayPropagator  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise ImportError(
            "a header of X-Ray needs opentelemetry-propagator-aws-xray: install sublet with its extra traces"
        ) from missing
    return AwsXRayPropagator()
