"""Counts a run's figures, and prints a line per batch and the final summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from sublet.decisions.plurals import counted

_REPARSE = "Run sublet pipeline reparse --from raw"


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A finished batch: its rows by table, and how long it took.

    passed_over   shards of which `raw` has records that `parsed` and `rejected` lack
    judged_twice  shards of which `parsed` and `rejected` may both have a record, or neither of them
    """

    batch: int
    rows: Mapping[str, int]
    took: timedelta
    passed_over: frozenset[str] = frozenset()
    judged_twice: frozenset[str] = frozenset()


@dataclass(slots=True)
class RunTally:
    """All batches of a run, and the last one.

    lag   how far behind the stream's tip the last batch ended, as of `planned_at`; None until Spark reports it
    """

    last: BatchDone | None = None
    batches: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    lag: timedelta | None = None
    planned_at: datetime | None = None
    passed_over: set[str] = field(default_factory=set)
    judged_twice: set[str] = field(default_factory=set)

    def behind(self, now: datetime) -> timedelta | None:
        """The most that the run may be behind the tip: records since the last plan are unread."""
        if self.lag is None or self.planned_at is None:
            return None
        return self.lag + max(now - self.planned_at, timedelta(0))

    def add(self, done: BatchDone) -> None:
        self.last = done
        self.batches += 1
        self.rows.update(done.rows)
        self.passed_over |= done.passed_over
        self.judged_twice |= done.judged_twice


class ProgressDisplay(Protocol):
    """Shows a run's progress."""

    def batch_done(self, tally: RunTally) -> None: ...

    def lag_known(self, tally: RunTally) -> None: ...

    def close(self) -> None: ...


class PlainLines:
    """A line per batch, for logs."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say

    def batch_done(self, tally: RunTally) -> None:
        if tally.last is not None:
            self._say(batch_line(tally.last))
            for line in lines_of_reparsing(tally.last.passed_over, tally.last.judged_twice):
                self._say(line)

    def lag_known(self, tally: RunTally) -> None:
        """Prints nothing, because the summary has the lag."""

    def close(self) -> None:
        """Does nothing."""


def batch_line(done: BatchDone) -> str:
    rows = ", ".join(f"{name} {count:,}" for name, count in done.rows.items())
    return f"batch {done.batch}: {rows} rows in {seconds(done.took)}"


def summary_lines(tally: RunTally, took: timedelta, output: str, now: datetime) -> list[str]:
    """The lines at the end of a run."""
    behind = tally.behind(now)
    raw, rejected = tally.rows["raw"], tally.rows["rejected"]
    pace = round(raw / max(took.total_seconds(), 1e-3))
    lines = [
        f"{raw:,} rows in {counted(tally.batches, 'batch', 'batches')}, {seconds(took)} ({pace:,} a second)",
        f"rejected: {rejected:,}" + (f" (why: {output}/rejected)" if rejected else ""),
        f"behind the stream's tip: {f'at most {seconds(behind)}' if behind is not None else 'not known'}",
    ]
    others = {name: count for name, count in tally.rows.items() if name not in ("raw", "rejected")}
    lines += [f"{name}: {count:,} rows" for name, count in others.items()]
    return [*lines, *lines_of_reparsing(tally.passed_over, tally.judged_twice)]


def lines_of_reparsing(passed_over: Collection[str], judged_twice: Collection[str]) -> list[str]:
    """What only `reparse` mends, a line for each cause."""
    lines = []
    if passed_over:
        lack = f"parsed and rejected lack records of {', '.join(sorted(passed_over))} that raw has, "
        why = (
            "because a batch was cut off between these tables and other workers of the application have handled it, or "
            "because these tables are new. "
        )
        lines.append(f"{lack}{why}{_REPARSE}")
    if judged_twice:
        differ = f"parsed and rejected may both lack, or both have, records of {', '.join(sorted(judged_twice))}: "
        why = (
            "a batch was cut off between them, and went on with another schema, format or release, or a registry or "
            "function that may have changed. "
        )
        lines.append(f"{differ}{why}{_REPARSE}")
    return lines


def seconds(duration: timedelta) -> str:
    """The duration as people write it: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(duration.total_seconds())
    if whole < 10:
        return f"{duration.total_seconds():.1f} s"
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"
