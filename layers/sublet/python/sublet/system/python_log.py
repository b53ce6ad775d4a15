"""The Log port over Python's logging, in a program of the user's and in Spark's workers: the program says where lines go."""

from __future__ import annotations

import logging
from collections.abc import Mapping


class PythonLog:
    """A line for each message, its fields after it; they are the record's attributes too, for a formatter that makes JSON."""

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
