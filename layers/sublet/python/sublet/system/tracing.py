"""Whether the program has OpenTelemetry. Nothing of it is imported here, so a program without it pays one look-up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sublet.ports import CallSpan, Log, Traces
from sublet.protocol.records import UserRecord
from sublet.settings import Settings, Tracing

if TYPE_CHECKING:
    from sublet.system.handler_spans import HandlerSpans

API = "opentelemetry.trace"
"""The module of OpenTelemetry's API that sets and gets the tracer provider: code that has set one has imported it."""

UNUSABLE = "there are no spans: OpenTelemetry's API is not as expected"


def traces_of(settings: Settings, log: Log) -> Traces | None:
    return None if settings.traces is Tracing.OFF else ProgramTraces(settings, log)


class ProgramTraces:
    """The Traces port, over the program's own tracer provider. Thread-safe.

    It asks at each call, because a program may set its provider after its consumer has started.
    """

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings, self._log = settings, log
        self._spans: HandlerSpans | None = None
        self._is_unusable = False

    def begin_call(self, shard_id: str, records: Sequence[UserRecord], attempt: int) -> CallSpan | None:
        if API not in sys.modules or self._is_unusable:
            return None
        if self._spans is None:
            self._spans = self._loaded()
        return None if self._spans is None else self._spans.begin_call(shard_id, records, attempt)

    def _loaded(self) -> HandlerSpans | None:
        try:
            from sublet.system.handler_spans import HandlerSpans  # noqa: PLC0415 - imports OpenTelemetry's API

            return HandlerSpans(self._settings, self._log)
        except Exception as fault:  # noqa: BLE001 - an API that we do not know, or propagators that cannot be loaded
            self._is_unusable = True
            self._log.warning(UNUSABLE, error=type(fault).__name__, problem=str(fault))
            return None
