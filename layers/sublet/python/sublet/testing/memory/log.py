"""Log lines in memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

RESERVED = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime"})
"""Field names that Python's logging refuses: a line with one of them would raise."""


@dataclass(frozen=True, slots=True)
class LogLine:
    level: str
    message: str
    fields: Mapping[str, object]

    def __post_init__(self) -> None:
        if refused := RESERVED & self.fields.keys():
            raise KeyError(f"logging refuses a field of this name: {', '.join(sorted(refused))}")


class MemoryLog:
    """The Log port."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []

    def info(self, message: str, **fields: object) -> None:
        self.lines.append(LogLine("info", message, fields))

    def warning(self, message: str, **fields: object) -> None:
        self.lines.append(LogLine("warning", message, fields))

    def error(self, message: str, **fields: object) -> None:
        self.lines.append(LogLine("error", message, fields))

    def messages(self, level: str | None = None) -> list[str]:
        """The messages in order, of one level or of all."""
        return [line.message for line in self.lines if level in (None, line.level)]
