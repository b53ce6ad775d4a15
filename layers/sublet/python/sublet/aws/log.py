"""The Log port as structured JSON, where sublet is the program: on Lambda, and in `sublet run`."""

from __future__ import annotations

from typing import IO, cast

from aws_lambda_powertools import Logger

from sublet.aws.output import STANDARD_OUTPUT, Output


class PowertoolsLog:
    """One JSON line each, with the fields as keys of their own; the level is POWERTOOLS_LOG_LEVEL's, or INFO."""

    def __init__(self, service: str, output: Output = STANDARD_OUTPUT) -> None:
        self._logger = Logger(service=service, stream=cast("IO[str]", output))

    def info(self, message: str, **fields: object) -> None:
        self._logger.info(message, extra=fields, stacklevel=3)

    def warning(self, message: str, **fields: object) -> None:
        self._logger.warning(message, extra=fields, stacklevel=3)

    def error(self, message: str, **fields: object) -> None:
        self._logger.error(message, extra=fields, stacklevel=3)
