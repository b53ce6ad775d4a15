"""A redrive as a change that the console plans, shows and carries out, with the handler that it was started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sublet.decisions.plurals import counted
from sublet.errors import ControlRefused
from sublet.operate.console.applications import ConsoleRedriver, OpenApplication
from sublet.operate.console.controlling import command_of
from sublet.operate.console.plans import PlanRow, PreparedChange
from sublet.operate.formatting import age_text, time_text
from sublet.operate.redrive import Redrive, RedriveProgress
from sublet.operate.redrive_text import note, said
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
from sublet.ports import Log, SetAsideStore


def redrive_command(application: OpenApplication, max_rate: float | None = None) -> str:
    """Returns the command that does the same in a terminal, with a placeholder for the handler if the console has
    none.
    """
    handler = application.settings.handler if application.redriver is not None else "MODULE:FUNCTION"
    limit = [] if max_rate is None else ["--max-rate", f"{max_rate:g}"]
    stream = application.streams[0] if len(application.streams) == 1 else "STREAM"
    options = ["--stream", stream, "--from", application.aside.name, "--handler", handler, *limit]
    return command_of("redrive", application, *options)


def prepare_redrive(application: OpenApplication, max_rate: float | None, log: Log) -> PreparedChange:
    """Prepares a redrive. Only counts what waits, because receiving it would hide it in a queue. Raises ControlRefused,
    and DestinationRefused if the count is refused.
    """
    redriver, store = application.redriver, application.aside.store
    if redriver is None:
        raise ControlRefused("a redrive calls your handler: start the console with --handler MODULE:FUNCTION")
    if store is None:
        raise ControlRefused(f"{application.aside.name} is a topic, which stores nothing to redrive")
    waiting, now = application.aside.waiting(), application.ports.clock.now()
    progress, told = _RedriveProgress(waiting.batches), note(application.settings.handler_contract)

    row = PlanRow(
        application.aside.name,
        "redrives",
        counted(waiting.batches, "batch", "batches"),
        "handled again, then removed",
        note="" if waiting.oldest is None else f"the oldest is {age_text(now - waiting.oldest)} old",
    )
    return PreparedChange(
        (row,) if waiting.batches else (),
        f"{counted(waiting.batches, 'batch', 'batches')} to {application.settings.handler}",
        partial(_carry_out, application, redriver, store, max_rate, log, progress),
        lambda: progress.batches,
        warning=f"{told[:1].upper()}{told[1:]}.",
        meaning=_meaning(max_rate, waiting),
        steps=lambda: progress.of,
    )


def _carry_out(
    application: OpenApplication,
    redriver: ConsoleRedriver,
    store: SetAsideStore,
    max_rate: float | None,
    log: Log,
    progress: _RedriveProgress,
) -> str:
    if not redriver.lock.acquire(blocking=False):
        raise ControlRefused("another redrive of this console is under way: nothing has been handled")
    ports = application.ports
    try:
        done = Redrive(
            store,
            redriver.handler,
            application.settings,
            ports.clock,
            log,
            progress.show,
            max_rate=max_rate,
            pause=ports.tasks.signal().wait,
        ).run()
    finally:
        redriver.lock.release()
    return f"{said(done, dry_run=False)}."


def _meaning(max_rate: float | None, waiting: SetAsideWaiting) -> tuple[str, ...]:
    until = waiting.forgotten_at
    return (
        "what the handler finishes is removed, and what fails again stays",
        "as fast as the handler" if max_rate is None else f"at most {max_rate:g} records a second, on average",
        "it runs in this console's process, and ends with it; what is left stays",
        *(() if until is None else (f"what still waits at {time_text(until)} is deleted then",)),
    )


@dataclass(slots=True)
class _RedriveProgress:
    """A redrive's progress. `of`: about how many batches there are; a queue counts those of all applications."""

    of: int
    batches: int = field(default=0, init=False)

    def show(self, so_far: RedriveProgress) -> None:
        self.of = max(so_far.batches, self.of)
        self.batches = so_far.done + so_far.failed + so_far.changed + so_far.foreign
