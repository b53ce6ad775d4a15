"""Warnings of what may go wrong again and again, each once."""

from __future__ import annotations

from sublet.ports import Log


class WarnedOnce:
    """Logs each message once for each type of error. `has_text`: whether the log may have an exception's text, which
    may quote a record.
    """

    def __init__(self, log: Log, *, has_text: bool = True) -> None:
        self._log, self._has_text = log, has_text
        self._said: set[tuple[str, str]] = set()

    def warn(self, message: str, fault: BaseException, **fields: object) -> None:
        error = type(fault).__name__
        if (message, error) in self._said:
            return
        self._said.add((message, error))
        problem = {"problem": str(fault)} if self._has_text else {}
        self._log.warning(message, **fields, error=error, **problem)
