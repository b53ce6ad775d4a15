"""Crashes within a user's handler: at one of its lines, or right after a checkpoint.

A real crash does not wait for a call of a port. A handler that acknowledges records before it stores them, or marks
them as seen first, loses records only if it dies between these two lines.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dis import get_instructions
from functools import cache
from math import exp, log
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from sublet.testing.simulation.scheduler import SECOND

IN_THE_HANDLER = "crash in the handler"
"""What `faults` of a run calls it."""

LINES_A_RECORD = 4
WAIT_MAX = 15 * SECOND
"""How long a process may live after the checkpoint that it dies of: long enough for a checkpoint that is due later."""

_LIBRARIES = tuple(
    {
        str(Path(__file__).parents[2]),
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


@cache
def _is_users(code: CodeType) -> bool:
    """False for sublet, the standard library and installed packages, and for the import of a module, which Python
    undoes.
    """
    file = code.co_filename
    return not file.startswith((*_LIBRARIES, "<frozen")) and code.co_name != "<module>"


@cache
def _ends_of_with(code: CodeType) -> frozenset[int]:
    """The lines at which a `with` block calls `__exit__` without an exception. An exception raised there would skip it,
    and leave a transaction open in a connection that the next process uses: with a real crash it is rolled back.
    """
    found, nones = set(), 0
    for instruction in get_instructions(code):
        if nones >= 3 and instruction.opname in ("PRECALL", "CALL") and instruction.positions is not None:
            found.add(instruction.positions.lineno or 0)
        nones = nones + 1 if instruction.opname == "LOAD_CONST" and instruction.argval is None else 0
    return frozenset(found)


@dataclass(slots=True)
class HandlerCrash:
    """Where one call dies. Counts down to 0; the call outlives it if it is over before."""

    lines: int = 0
    """After this many lines of the handler's own code; 0 if not at a line."""
    checkpoints: int = 0
    """After this many checkpoints; 0 if not after one."""
    wait_us: int = 0
    """How long after the checkpoint it dies."""


class HandlerCrashes:
    """Draws the crashes of one world, from a chance of its own: the rest of the world stays as its seed has drawn
    it.
    """

    def __init__(self, seed: int) -> None:
        self._chance = Random(f"crashes in the handler of seed {seed}")
        self._rate = self._chance.choice((0.02, 0.1, 0.3))
        self._left = self._chance.randint(1, 4)

    def draw(self, records: int) -> HandlerCrash | None:
        """Returns where a call with this many records dies; None if it may live. Early lines are as likely as late ones
        of a handler that loops over its records.
        """
        chance = self._chance
        if self._left == 0 or chance.random() >= self._rate:
            return None
        if chance.random() < 0.5:
            return HandlerCrash(lines=self._up_to(10 + LINES_A_RECORD * records))
        wait_us = int(chance.uniform(0, WAIT_MAX)) if chance.random() < 0.5 else 0
        return HandlerCrash(checkpoints=self._up_to(records), wait_us=wait_us)

    def struck(self) -> None:
        """Called when a drawn crash has come."""
        self._left -= 1

    def _up_to(self, most: int) -> int:
        return int(exp(self._chance.uniform(0, log(most + 1))))


class WatchedLines:
    """Counts the lines of the user's code while a call runs, and calls `die`, which raises, at the last of `lines`.

    Python's monitoring counts them where it is there (3.12 and newer), beside coverage tools and debuggers. Otherwise a
    trace function does, which calls the one of a coverage tool or debugger too; it does not see the thread of
    coroutines.
    """

    def __init__(self, lines: int, die: Callable[[str], None]) -> None:
        self._left = lines
        self._die = die
        self._thread = threading.get_ident()
        self._is_on = False

    @contextmanager
    def on(self) -> Iterator[None]:
        tool = _free_tool()
        with self._traced() if tool is None else self._monitored(tool):
            yield

    @contextmanager
    def off(self) -> Iterator[None]:
        """While the engine runs within the call: it may let another process go on."""
        was_on, self._is_on = self._is_on, False
        theirs = sys.gettrace()
        if was_on and theirs is self._trace:
            sys.settrace(self._other)
        try:
            yield
        finally:
            self._is_on = was_on
            if was_on and theirs is self._trace:
                sys.settrace(self._trace)

    def _line(self, code: CodeType, line: int) -> None:
        if not self._is_on or not self._is_in_the_call():
            return
        self._left -= 1
        if self._left <= 0 and line not in _ends_of_with(code):
            self._is_on = False
            self._die(f"{Path(code.co_filename).name}:{line}, in {code.co_name}")

    def _is_in_the_call(self) -> bool:
        """True in the thread of the call, and in a coroutine that it waits for."""
        return threading.get_ident() == self._thread or asyncio._get_running_loop() is not None  # noqa: SLF001

    if sys.version_info >= (3, 12):

        @contextmanager
        def _monitored(self, tool: int) -> Iterator[None]:
            monitoring = sys.monitoring

            def on_line(code: CodeType, line: int) -> object:
                if not _is_users(code):
                    return monitoring.DISABLE
                return self._line(code, line)

            monitoring.use_tool_id(tool, "sublet.testing.simulate")
            monitoring.register_callback(tool, monitoring.events.LINE, on_line)
            monitoring.set_events(tool, monitoring.events.LINE)
            self._is_on = True
            try:
                yield
            finally:
                self._is_on = False
                monitoring.set_events(tool, 0)
                monitoring.register_callback(tool, monitoring.events.LINE, None)
                monitoring.free_tool_id(tool)

    else:

        def _monitored(self, tool: int) -> Any:
            raise AssertionError(f"no monitoring before Python 3.12: {tool}")

    _other: Any = None
    """The trace function that was there before: a debugger's, or a coverage tool's."""

    @contextmanager
    def _traced(self) -> Iterator[None]:
        self._other = sys.gettrace()
        self._trace = self._call  # one object, so that `is` tells it apart
        self._is_on = True
        sys.settrace(self._trace)
        try:
            yield
        finally:
            self._is_on = False
            sys.settrace(self._other)

    _trace: Any = None

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        """The trace function of new frames."""
        other = self._other(frame, event, arg) if self._other is not None else None
        if sys.gettrace() is not self._trace and self._is_on:
            sys.settrace(self._trace)  # coverage's tracer puts itself in our place
        if not _is_users(frame.f_code):
            return other

        def within(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal other
            if other is not None:
                other = other(frame, event, arg)
            if event == "line":
                self._line(frame.f_code, frame.f_lineno)
            return within

        return within


if sys.version_info >= (3, 12):

    def _free_tool() -> int | None:
        """A number that no debugger, coverage tool or profiler has taken; None if there is none."""
        return next((tool for tool in (4, 3) if sys.monitoring.get_tool(tool) is None), None)

else:

    def _free_tool() -> int | None:
        return None
