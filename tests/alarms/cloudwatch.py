"""CloudWatch's evaluation of alarms, as documented in its User Guide ("Alarm evaluation", "Configuring how CloudWatch
alarms treat missing data"), as a pure function of the data.

* An alarm is evaluated every minute, over a sliding window; the periods end with the last full minute.
* More periods are retrieved than are evaluated: the guide shows five for an alarm on three. If some are missing, but
  there
  are as many as are evaluated, the most recent of those count, however old, and the treatment of missing data does
  not apply.
  If there are fewer, all of them count and the rest is filled.
* FILL in metric math fills before any of this: nothing is missing then.
* A log line in embedded metric format becomes a metric some seconds later. Here a minute's data is available one
  minute after it.
"""

from __future__ import annotations

import ast
import operator
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from sublet_cdk.alarm_kinds import Alarm, Figure, Missing, Source

RETRIEVED_BEYOND = 2
LATE_MINUTES = 1


@dataclass(slots=True)
class Bucket:
    """A metric's data of one minute."""

    total: float = 0
    count: int = 0
    least: float = float("inf")
    most: float = float("-inf")

    def add(self, value: float) -> None:
        self.total, self.count = self.total + value, self.count + 1
        self.least, self.most = min(self.least, value), max(self.most, value)


@dataclass(slots=True)
class Series:
    """A metric's minutes with data, in order."""

    minutes: list[int] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)

    def put(self, minute: int, value: float) -> None:
        if not self.minutes or self.minutes[-1] != minute:
            self.minutes.append(minute)
            self.buckets.append(Bucket())
        self.buckets[-1].add(value)

    def between(self, minutes: range) -> Sequence[Bucket]:
        return self.buckets[bisect_left(self.minutes, minutes.start) : bisect_left(self.minutes, minutes.stop)]

    def repeat(self, minutes: range, until: int) -> None:
        first = bisect_left(self.minutes, minutes.start)
        found = list(zip(self.minutes[first:], self.buckets[first:], strict=True))
        for shift in range(len(minutes), until - minutes.start, len(minutes)):
            later = [(minute + shift, bucket) for minute, bucket in found if minute + shift < until]
            self.minutes += [minute for minute, _ in later]
            self.buckets += [bucket for _, bucket in later]


STATISTICS: Mapping[str, Callable[[Sequence[Bucket]], float]] = {
    "Sum": lambda found: sum(bucket.total for bucket in found),
    "SampleCount": lambda found: sum(bucket.count for bucket in found),
    "Minimum": lambda found: min(bucket.least for bucket in found),
    "Maximum": lambda found: max(bucket.most for bucket in found),
    "Average": lambda found: sum(bucket.total for bucket in found) / sum(bucket.count for bucket in found),
}


@dataclass(slots=True)
class Recorded:
    """Every metric by source, name, stream (None: without that dimension) and minute."""

    series: dict[tuple[Source, str, str | None], Series] = field(default_factory=lambda: defaultdict(Series))

    def put(self, source: Source, metric: str, minute: int, value: float, stream: str | None = None) -> None:
        self.series[source, metric, stream].put(minute, value)

    def datapoint(self, figure: Figure, minutes: range) -> float | None:
        found = self.series[figure.source, figure.metric, figure.stream].between(minutes)
        return STATISTICS[figure.statistic](found) if found else None

    def repeat(self, last: int, until: int) -> None:
        """Repeats the data of the last minutes until then."""
        now = max(series.minutes[-1] for series in self.series.values() if series.minutes) + 1
        for series in self.series.values():
            series.repeat(range(now - last, now), until)


def is_on(alarm: Alarm, recorded: Recorded, now: int) -> bool:
    """After `now` minutes."""
    return judge(alarm, list(_retrieved(alarm, recorded, now)))


def contributors(alarm: Alarm, recorded: Recorded, now: int) -> frozenset[str]:
    """The streams for which an alarm on a query is on. Each is judged by its own data; those without any are unknown to
    it.
    """
    (figure,) = alarm.figures.values()
    metric = figure.source, figure.metric
    streams = {stream for *of, stream in recorded.series if (*of,) == metric and stream is not None}
    return frozenset(
        stream
        for stream in streams
        if is_on(replace(alarm, figures={"figure": replace(figure, stream=stream)}), recorded, now)
    )


def judge(alarm: Alarm, points: Sequence[float | None]) -> bool:
    """Judges the retrieved periods, oldest first; None is missing."""
    real = [point for point in points if point is not None][-alarm.periods :]
    beyond = sum(point <= alarm.threshold if alarm.below else point > alarm.threshold for point in real)
    filled = alarm.periods - len(real) if alarm.missing is Missing.BREACHING else 0
    return beyond + filled >= alarm.points


def _retrieved(alarm: Alarm, recorded: Recorded, now: int) -> Iterator[float | None]:
    for back in range(alarm.periods + RETRIEVED_BEYOND, 0, -1):
        begin = now - back * alarm.minutes
        minutes = range(begin, min(begin + alarm.minutes, now - LATE_MINUTES))
        figures = {name: recorded.datapoint(figure, minutes) for name, figure in alarm.figures.items()}
        yield calculate(alarm.expression, figures) if alarm.expression else next(iter(figures.values()))


OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Div: lambda left, right: left / right if right else 0.0,
    ast.Gt: operator.gt,
}


def calculate(expression: str, figures: Mapping[str, float | None]) -> float | None:
    """Metric math, as far as our alarms use it. A period with missing data has no result, except with FILL."""
    return _value(_parsed(expression), figures)


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression.replace("IF(", "if_("), mode="eval").body


def _value(node: ast.expr, figures: Mapping[str, float | None]) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return figures[name]
        case ast.Call(func=ast.Name(id="FILL"), args=[inner, filling]):
            found = _value(inner, figures)
            return _value(filling, figures) if found is None else found
        case ast.Call(func=ast.Name(id="if_"), args=[condition, then, otherwise]):
            holds = _value(condition, figures)
            return None if holds is None else _value(then if holds else otherwise, figures)
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            sides = _value(left, figures), _value(right, figures)
            return None if None in sides else OPERATORS[type(op)](*sides)  # type: ignore[arg-type]  # None is in neither
    raise AssertionError(f"metric math that is not simulated: {ast.dump(node)}")
