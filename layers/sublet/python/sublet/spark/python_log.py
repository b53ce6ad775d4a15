"""The Log port over Python's logging: in Spark's workers that is standard error, which Spark keeps."""

from __future__ import annotations

import logging


class PythonLog:
    """A line for each message, its fields after it."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, message: str, **fields: object) -> None:
        self._logger.info(_line(message, fields))

    def warning(self, message: str, **fields: object) -> None:
        self._logger.warning(_line(message, fields))

    def error(self, message: str, **fields: object) -> None:
        self._logger.error(_line(message, fields))


def _line(message: str, fields: dict[str, object]) -> str:
    return " ".join([f"sublet: {message}", *(f"{name}={value}" for name, value in fields.items())])
