"""The Log port: Powertools' structured JSON on Lambda, Python's own logging elsewhere."""

from __future__ import annotations

from aws_lambda_powertools import Logger


class PowertoolsLog:
    """One JSON line each, with the fields as keys of their own; the level is POWERTOOLS_LOG_LEVEL's, or INFO."""

    def __init__(self, service: str) -> None:
        self._logger = Logger(service=service)

    def info(self, message: str, **fields: object) -> None:
        self._logger.info(message, extra=fields, stacklevel=3)

    def warning(self, message: str, **fields: object) -> None:
        self._logger.warning(message, extra=fields, stacklevel=3)

    def error(self, message: str, **fields: object) -> None:
        self._logger.error(message, extra=fields, stacklevel=3)
