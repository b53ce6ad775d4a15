"""A line over the last hour, as an SVG path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from sublet.console.hour import HOUR

WIDTH, HEIGHT = 600, 100
GAP = timedelta(minutes=2)
"""Between two samples so far apart there is no line."""

STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)

Point = tuple[datetime, float | None]


@dataclass(frozen=True, slots=True)
class Graph:
    """`line`, `area`: path data, in WIDTH by HEIGHT. `top`, `middle`: the axis' labels; the bottom is 0. `said`: in words."""

    line: str
    area: str
    top: str
    middle: str
    said: str

    @property
    def is_empty(self) -> bool:
        return not self.line


def graph_of(points: Sequence[Point], now: datetime, text: Callable[[float], str]) -> Graph:
    """`text` writes a value with its unit."""
    known = [value for _, value in points if value is not None]
    if not known:
        return Graph("", "", "", "", "not known yet")
    top = round_up(max(known))
    stretches = list(_stretches(points, now, top))
    line = " ".join(_path(stretch) for stretch in stretches)
    area = " ".join(_closed(stretch) for stretch in stretches)
    latest = points[-1][1]
    current = "not known now" if latest is None else f"now {text(latest)}"
    said = f"{current}, at most {text(max(known))} in this time"
    return Graph(line, area, text(top), text(top / 2), said)


def round_up(value: float) -> float:
    """To a number that reads well on an axis."""
    if value <= 0:
        return 1.0
    size = 1.0
    while value > size * STEPS[-1]:
        size *= 10
    while value <= size / 10 * STEPS[-1]:
        size /= 10
    return next(step * size for step in STEPS if value <= step * size)


def _stretches(points: Iterable[Point], now: datetime, top: float) -> Iterable[list[tuple[float, float]]]:
    """Runs of known values without a gap, as places."""
    placed = [(at, value) for at, value in points]
    stretch: list[tuple[float, float]] = []
    for (at, value), (later, _) in pairwise([*placed, (now + 2 * GAP, None)]):
        if value is not None:
            stretch.append((WIDTH * (1 - (now - at) / HOUR), HEIGHT * (1 - value / top)))
        if stretch and (value is None or later - at > GAP):
            yield stretch
            stretch = []


def _path(stretch: Sequence[tuple[float, float]]) -> str:
    (x, y), *others = stretch
    if not others:
        others = [(x + 1, y)]
    return f"M{x:.1f} {y:.1f}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in others)


def _closed(stretch: Sequence[tuple[float, float]]) -> str:
    return f"{_path(stretch)}V{HEIGHT}H{stretch[0][0]:.1f}Z"
