"""Whether a producer's program has OpenTelemetry. Nothing of it is imported here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sublet.decisions.putting.producing import PutCall
from sublet.ports import Log
from sublet.protocol.records import PutRefused
from sublet.protocol.stream_info import PutRecord
from sublet.system.tracing import API, UNUSABLE

if TYPE_CHECKING:
    from sublet.putting.send_spans import SendSpans

Put = Callable[[], Sequence[PutRecord | PutRefused]]
"""Makes a PutRecords call."""


class PutTraces:
    """A span for each PutRecords call, if the program has a tracer provider. Thread-safe."""

    def __init__(self, stream: str, log: Log) -> None:
        self._stream, self._log = stream, log
        self._spans: SendSpans | None = None
        self._is_unusable = False

    def current(self) -> object:
        """The context of the caller's span, for the call that sends its record; None without one."""
        return None if (spans := self._found()) is None else spans.current()

    def sent(self, call: PutCall, put: Put) -> Sequence[PutRecord | PutRefused]:
        """Make the call, within its span. Raises what the call raises."""
        return put() if (spans := self._found()) is None else spans.sent(call, put)

    def _found(self) -> SendSpans | None:
        if API not in sys.modules or self._is_unusable:
            return None
        if self._spans is None:
            self._spans = self._loaded()
        return self._spans

    def _loaded(self) -> SendSpans | None:
        try:
            from sublet.putting.send_spans import SendSpans  # noqa: PLC0415 - imports OpenTelemetry's API

            return SendSpans(self._stream, self._log)
        except Exception as fault:  # noqa: BLE001 - an API that we do not know
            self._is_unusable = True
            self._log.warning(UNUSABLE, error=type(fault).__name__, problem=str(fault))
            return None
