"""The Log port as structured JSON, for Lambda and `sublet run`."""

from __future__ import annotations

from typing import IO, cast

from aws_lambda_powertools import Logger

from sublet.aws.standard_output import STANDARD_OUTPUT, Output


class PowertoolsLog:
    """Writes a JSON line per message, with a key per field. The level is POWERTOOLS_LOG_LEVEL, or INFO."""

    def __init__(self, service: str, output: Output = STANDARD_OUTPUT) -> None:
        self._logger = Logger(service=service, stream=cast("IO[str]", output))

    def info(self, message: str, **fields: object) -> None:
        self._logger.info(message, extra=fields, stacklevel=3)

    def warning(self, message: str, **fields: object) -> None:
        self._logger.warning(message, extra=fields, stacklevel=3)

    def error(self, message: str, **fields: object) -> None:
        self._logger.error(message, extra=fields, stacklevel=3)
