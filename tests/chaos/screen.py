"""A run's progress: one changing line on a terminal, otherwise a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from demo.view import clock
from tests.chaos.run import Progress

LINE_EVERY = 10.0
"""Seconds between lines without a terminal."""


def progress_line(progress: Progress) -> str:
    faults = ", ".join(f"{kind} {count}" for kind, count in sorted(progress.faults.items())) or "no faults"
    return (
        f"{clock(progress.seconds)}  {progress.phase}: {progress.put:,} put, "
        f"{progress.put - progress.handled:,} not handled yet; {faults}"
    )


@contextmanager
def shown(console: Console) -> Iterator[Callable[[Progress], None]]:
    if console.is_terminal:
        with console.status("") as status:
            yield lambda progress: status.update(progress_line(progress))
        return
    yield _Lines(console).show


@dataclass
class _Lines:
    console: Console
    phase: str = ""
    due: float = 0.0

    def show(self, progress: Progress) -> None:
        if progress.phase != self.phase or time.monotonic() >= self.due:
            self.phase, self.due = progress.phase, time.monotonic() + LINE_EVERY
            self.console.print(progress_line(progress), markup=False, highlight=False, soft_wrap=True)
