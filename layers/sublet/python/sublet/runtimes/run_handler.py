"""`Consumer.run`: calls a handler in this process until a signal or `stop` ends it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from sublet.handler import UserHandler
from sublet.handlers.load import handler_of
from sublet.ports import Ports, Signal, Tasks
from sublet.runtimes.ending import stop_at_signals, stops
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings

Join = Callable[[Signal, Signal], tuple[Ports, Settings] | None]
"""A function that reaches AWS, however long that takes, and returns None if one of the signals (stop, leaving) is set
first.
"""


def run_handler(
    handler: UserHandler, join: Join, settings: Settings, tasks: Tasks, stop: Signal, *, until_signalled: bool
) -> None:
    """Does what `Consumer.run` says. Returns when `stop` is set and every lease is released."""
    running: list[ConsumerProcess] = []
    told = stops(tasks, stop)
    with ExitStack() as at_end:
        at_end.callback(told.is_over.set)
        if until_signalled:
            restore = stop_at_signals(
                told,
                settings.drain_timeout,
                tasks,
                lambda: [left for process in running for left in process.left()],
            )
            at_end.callback(restore)
        joined = join(told.stop, told.leaving)
        if joined is None:
            return
        ports, settings = joined
        running.append(ConsumerProcess(ports, handler_of(handler, settings), settings, told.stop, told.leaving))
        running[0].run()
