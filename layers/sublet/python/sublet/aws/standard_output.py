"""Where a process writes its log lines and metrics. A failure to write does not stop the consumer."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Literal, Protocol

METRICS_LOGGER = "sublet.metrics"


class Lines(Protocol):
    """Takes metrics, one per line."""

    @property
    def is_read(self) -> bool:
        """Whether the output goes anywhere. If not, lines need not be made."""

    def write(self, text: str) -> int: ...


class MetricsLogger:
    """The logger `sublet.metrics` in a user's program. Metrics go only to the handlers that the program adds to it.
    Without a handler they are not even made."""

    def __init__(self) -> None:
        self._logger = logging.getLogger(METRICS_LOGGER)
        self._logger.propagate = False
        self._logger.setLevel(logging.INFO)

    @property
    def is_read(self) -> bool:
        return self._logger.hasHandlers()

    def write(self, text: str) -> int:
        self._logger.info("%s", text.rstrip("\n"))
        return len(text)


class Output:
    """Standard output or error, as `sys` has it at each write.

    If it cannot be written (a full disk, a broken pipe, a closed file), it says so once on standard error. Lines are
    lost until it can be written again.
    """

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._has_said = False

    @property
    def is_read(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """One write per line, so that lines of several threads do not mix."""
        try:
            if (file := getattr(sys, self._name)) is not None:
                file.write(text)
                file.flush()
        except (OSError, ValueError) as problem:  # ValueError: closed, or a character is not encodable
            self._say_once(problem)
        return len(text)

    def flush(self) -> None:
        """Does nothing: `write` flushes every line."""

    def _say_once(self, problem: Exception) -> None:
        if self._has_said:
            return
        self._has_said = True
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"sublet: {self._name} cannot be written, and log lines and metrics are lost: {problem}\n")
            sys.stderr.flush()


STANDARD_OUTPUT = Output("stdout")
"""Where a process writes that runs nothing else: on Lambda, and under `sublet run`."""
