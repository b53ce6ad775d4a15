"""The Log port over Python's logging, for a user's program and for Spark's workers: the program decides where lines
go.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping


class PythonLog:
    """One line per message, with its fields appended; the fields are also the record's attributes, for a formatter that
    makes JSON.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, message: str, **fields: object) -> None:
        self._say(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        self._say(logging.WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        self._say(logging.ERROR, message, fields)

    def _say(self, level: int, message: str, fields: Mapping[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", _line(message, fields), extra=fields, stacklevel=3)


def _line(message: str, fields: Mapping[str, object]) -> str:
    return " ".join([f"sublet: {message}", *(f"{name}={value}" for name, value in fields.items())])
