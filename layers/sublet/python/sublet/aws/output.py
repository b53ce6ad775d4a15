"""Where a process' own log lines and metrics go. What becomes of them ends no consumer."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Literal, Protocol

METRICS_LOGGER = "sublet.metrics"


class Lines(Protocol):
    """What takes metrics, a line each."""

    @property
    def is_read(self) -> bool:
        """Whether anybody gets what is written: what nobody gets need not be made."""

    def write(self, text: str) -> int: ...


class MetricsLogger:
    """The logger `sublet.metrics`, in a program that is the user's: metrics go to the handlers that the program gives it alone.
    Without one they are not even made.
    """

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
    """Standard output or error, whichever file stands for it just now, for lines.

    One that cannot be written (a full disk, a pipe that nobody reads any more, one that was closed) is told of once, on standard
    error; lines are lost for as long as it lasts.
    """

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._is_told = False

    @property
    def is_read(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """In one piece: lines of several threads do not mix."""
        try:
            if (file := getattr(sys, self._name)) is not None:
                file.write(text)
                file.flush()
        except (OSError, ValueError) as problem:  # ValueError: it is closed, or has no such character
            self._tell(problem)
        return len(text)

    def flush(self) -> None:
        """Every line is written out by now."""

    def _tell(self, problem: Exception) -> None:
        if self._is_told:
            return
        self._is_told = True
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(
                f"sublet: {self._name} cannot be written, and log lines and metrics are lost: {problem}\n"
            )
            sys.stderr.flush()


STANDARD_OUTPUT = Output("stdout")
"""Of a process that does nothing else: on Lambda, and of `sublet run`."""
