"""The future of a record that was put: a `concurrent.futures.Future` that makes its lock only if somebody waits for it.

A Future's condition is most of a small record's memory and a third of its CPU, and few programs wait for single
records.
"""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING
from threading import Condition, Lock
from typing import Any

from sublet.protocol.stream_info import PutRecord

_MAKING = Lock()
"""Guards whether a future has a condition, and the outcome of those that have none."""


class PutFuture(Future[PutRecord]):
    """Everything but `settle` and `done` is Future's own, which asks for `_condition` first of all."""

    def __init__(self) -> None:
        self._state = PENDING
        self._result = self._exception = None
        self._waiters: Any = ()
        self._done_callbacks: Any = ()

    @property
    def _condition(self) -> Condition:  # type: ignore[override]
        made: Condition | None = self.__dict__.get("made")
        if made is None:
            with _MAKING:
                made = self.__dict__.get("made")
                if made is None:
                    self._waiters, self._done_callbacks = [], []
                    made = self.__dict__["made"] = Condition()
        return made

    def done(self) -> bool:
        return self._state == FINISHED or super().done()

    def settle(self, outcome: PutRecord | Exception) -> None:
        """Sets the outcome. Raises what set_result raises, if the future was cancelled."""
        if "made" not in self.__dict__:
            with _MAKING:
                if "made" not in self.__dict__:
                    if isinstance(outcome, PutRecord):
                        self._result = outcome
                    else:
                        self._exception = outcome
                    self._state = FINISHED
                    return
        if isinstance(outcome, PutRecord):
            self.set_result(outcome)
        else:
            self.set_exception(outcome)
