"""Ends this process on purpose, and prints why and what it leaves behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import FrameType
from typing import TypeGuard

from sublet.engine.process_health import LeftBehind
from sublet.errors import SettingsError
from sublet.ports import Clock, Signal, Tasks
from sublet.system.clock import SystemClock
from sublet.system.early_end import end_early

SPENT = 70
"""The exit status of a process that cannot continue although a new one could: EX_SOFTWARE, "an internal software
error".
"""

End = Callable[[int], object]


def end_process(status: int) -> None:
    """End the process at once. Python's own exit would wait for the threads of handler calls that hang."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


OURS = (signal.SIGTERM, signal.SIGINT)

SAME_SIGNAL = timedelta(seconds=1)
"""A second signal this soon after the first counts as the same one: a terminal and a wrapper both pass on one
Ctrl-C.
"""


@dataclass(frozen=True, slots=True)
class StopSignals:
    """The signals that end a process.

    stop       end as soon as the handler's calls have ended
    leaving    end gently: first wait until the other processes tick often, to take over released leases
    is_over    set when the process has ended in time, so that nothing is cut short any more
    """

    stop: Signal
    leaving: Signal
    is_over: Signal


def stops(tasks: Tasks, stop: Signal | None = None) -> StopSignals:
    return StopSignals(stop or tasks.signal(), tasks.signal(), tasks.signal())


def stop_at_signals(
    told: StopSignals,
    drain_timeout: timedelta,
    tasks: Tasks,
    left: Callable[[], Iterable[LeftBehind]] = tuple,
    end: End = end_process,
    clock: Clock | None = None,
) -> Callable[[], None]:
    """Have SIGTERM set `leaving` and SIGINT set `stop`. A second signal, or the end of `drain_timeout` after the first,
    ends the process at once, and prints which leases are `left`. Returns a function that restores the earlier signal
    handlers, for a program that continues afterwards. A forked child gets them back at once: a multiprocessing.Pool in
    a handler ends its workers by SIGTERM, and waits for them.

    A handler that the program or its web framework has set before is called after ours, since uvicorn, for one, ends
    only if its own handler is called. If it raises, as one that calls `sys.exit` does, the returned function raises
    that at the end, so that nothing is cut short.

    Raises SettingsError outside the main thread, because Python sets signal handlers only there.
    """
    _check_main_thread()
    steady, first = (clock or SystemClock()).steady, list[datetime]()

    def end_late(number: int) -> None:
        if not told.is_over.wait(drain_timeout):
            _say(told_at_the_end("drain_timeout is over", left()))
            end(128 + number)

    def receive(number: int, frame: FrameType | None) -> None:
        now = steady()
        first.append(now)
        if now - first[0] >= SAME_SIGNAL:
            _say(told_at_the_end(f"by a second signal, {signal.Signals(number).name}", left()))
            end(128 + number)
        if len(first) == 1:
            tasks.spawn(partial(end_late, number))
        (told.leaving if number == signal.SIGTERM else told.stop).set()
        if len(first) == 1:
            replaced.call(number, frame)

    replaced = _ReplacedHandlers(receive)
    if hasattr(os, "register_at_fork"):
        _put_back_in_forks(replaced.put_back, replaced.is_ours)
    return replaced.end


class _ReplacedHandlers:
    """The signal handlers that were there before ours."""

    def __init__(self, ours: Callable[[int, FrameType | None], None]) -> None:
        self._ours = ours
        before = {int(number): signal.signal(number, ours) for number in OURS}
        self._before = {number: signal.SIG_DFL if theirs is end_early else theirs for number, theirs in before.items()}
        self._raised: BaseException | None = None
        _IN_FORCE.append(self)

    def call(self, number: int, frame: FrameType | None) -> None:
        """Calls the program's own handler, if it had one. What it raises is kept until `end`."""
        theirs = self._before[number]
        if _is_the_programs(theirs):
            try:
                theirs(number, frame)
            except BaseException as fault:  # noqa: BLE001 -- SystemExit too
                self._raised = fault

    def is_ours(self) -> bool:
        return any(signal.getsignal(number) is self._ours for number in OURS)

    def put_back(self) -> None:
        """Restores them, except where the program has set another one since. A consumer that has replaced ours, and is
        left later, will restore what was there before us.
        """
        if self in _IN_FORCE:
            _IN_FORCE.remove(self)
        for later in _IN_FORCE:
            later.follow(self)
        for number, handler in self._before.items():
            if signal.getsignal(number) is self._ours:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not Python's own

    def follow(self, ended: _ReplacedHandlers) -> None:
        """Takes over what an ended one had replaced, where we have replaced it."""
        for number, handler in self._before.items():
            if handler is ended._ours:
                self._before[number] = ended._before[number]

    def end(self) -> None:
        self.put_back()
        fault, self._raised = self._raised, None
        if fault is not None:
            raise fault


_IN_FORCE: list[_ReplacedHandlers] = []
"""Those whose signal handlers are set, or replaced by a later one's. Only the main thread changes it."""


def _is_the_programs(handler: object) -> TypeGuard[Callable[[int, FrameType | None], object]]:
    """Whether the program has set this signal handler. Python's own for Ctrl-C, as `asyncio.run` has one too,
    interrupts it.
    """
    runner = getattr(sys.modules.get("asyncio"), "Runner", ())  # not imported for this: it takes 20 ms
    is_of_asyncio = isinstance(getattr(getattr(handler, "func", None), "__self__", None), runner)
    return callable(handler) and handler is not signal.default_int_handler and not is_of_asyncio


def _put_back_in_forks(put_back: Callable[[], None], is_set: Callable[[], bool]) -> None:
    """Restore the handlers in a forked child, and block signals until then. Python drops a signal that its own handler
    receives in a child that has just been forked, so a pool that ends such a worker would wait for it for ever.
    """
    thread = threading.local()

    def hold_back() -> None:
        thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, OURS) if is_set() else None

    def let_through() -> None:
        if (mask := getattr(thread, "mask", None)) is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def in_child() -> None:
        put_back()
        let_through()

    os.register_at_fork(before=hold_back, after_in_parent=let_through, after_in_child=in_child)


def _check_main_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise SettingsError(
            "until_signalled",
            True,
            "allowed only in the main thread, where signals arrive; in another thread call stop()",
        )


def told_at_the_end(why: str, left: Iterable[LeftBehind]) -> str:
    leases = [f"\n  {lease}" for lease in left]
    if not leases:
        return f"sublet: ended at once: {why}; no lease was held\n"
    return (
        f"sublet: ended at once: {why}; these leases are not released, and others acquire them after failover_time:"
        f"{''.join(leases)}\n"
    )


def _say(text: str) -> None:
    """Write the text to standard error without `print`: a signal may interrupt a `print`, whose buffer is not
    reentrant.
    """
    os.write(2, text.encode())
