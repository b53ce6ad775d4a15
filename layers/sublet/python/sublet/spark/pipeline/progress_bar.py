"""A progress bar for a terminal: how far the run has come towards the stream's tip, and its results."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from sublet.spark.pipeline.tally import RunTally, seconds


class ProgressBar:
    """A bar that is full when the run has reached the tip, and indeterminate until the first lag is known."""

    def __init__(self, console: Console, stream: str) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task: TaskID = self._progress.add_task(f"{stream}: waiting for the first batch", total=None)
        self._stream, self._farthest = stream, timedelta(0)
        self._lag: timedelta | None = None
        self._progress.start()

    def batch_done(self, tally: RunTally) -> None:
        self._show(tally)

    def lag_known(self, tally: RunTally) -> None:
        self._lag = tally.lag
        if tally.lag is not None:
            self._farthest = max(self._farthest, tally.lag)
        self._show(tally)

    def close(self) -> None:
        self._progress.stop()

    @property
    def done(self) -> float | None:
        """How much is done, from 0 (the largest lag seen) to 1 (the tip); None until a lag is known."""
        lag = self._lag
        if lag is None:
            return None
        return 1 - lag / self._farthest if self._farthest else 1.0

    def _show(self, tally: RunTally) -> None:
        words = [f"{self._stream}: {tally.rows['raw']:,} rows", f"{tally.rows['rejected']:,} rejected"]
        if tally.lag is not None:
            words.append(f"{seconds(tally.lag)} behind")
        total = None if self.done is None else 1
        self._progress.update(self._task, description=", ".join(words), completed=self.done or 0, total=total)
