"""Draws a line over the last hour as an SVG path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 100

STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawn line.

    line, area   path data, in WIDTH by HEIGHT
    top, middle  labels of the axis, whose bottom is 0
    said         the graph in words
    """

    line: str
    area: str
    top: str
    middle: str
    said: str

    @property
    def is_empty(self) -> bool:
        return not self.line


def graph_of(values: Sequence[float | None], text: Callable[[float], str]) -> Graph:
    """Draws the values, one for each minute, oldest first; None is not known. `text` writes a value with its unit."""
    known = [value for value in values if value is not None]
    if not known:
        return Graph("", "", "", "", "not known yet")
    top = round_up(max(known))
    stretches = list(_stretches(values, top))
    line = " ".join(_path(stretch) for stretch in stretches)
    area = " ".join(_closed(stretch) for stretch in stretches)
    latest = next((value for value in reversed(values[-2:]) if value is not None), None)
    current = "not known now" if latest is None else f"now {text(latest)}"
    middle = text(top / 2)
    return Graph(
        line,
        area,
        text(top),
        "" if middle == text(0) else middle,
        f"{current}, at most {text(max(known))} in this time",
    )


def round_up(value: float) -> float:
    """Rounds up to a number that reads well on an axis."""
    if value <= 0:
        return 1.0
    size = 1.0
    while value > size * STEPS[-1]:
        size *= 10
    while value <= size / 10 * STEPS[-1]:
        size /= 10
    return next(step * size for step in STEPS if value <= step * size)


def _stretches(values: Sequence[float | None], top: float) -> Iterable[list[tuple[float, float]]]:
    """Yields the runs of known values, as points. A single unknown value ends no run, since a look may miss a
    minute.
    """
    stretch: list[tuple[float, float]] = []
    missed = 0
    for at, value in enumerate(values):
        missed = 0 if value is not None else missed + 1
        if value is not None:
            stretch.append((WIDTH * at / max(1, len(values) - 1), HEIGHT * (1 - value / top)))
        elif missed > 1 and stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _path(stretch: Sequence[tuple[float, float]]) -> str:
    (x, y), *others = stretch
    if not others:
        others = [(x + 1, y)]  # a dot
    return f"M{x:.1f} {y:.1f}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in others)


def _closed(stretch: Sequence[tuple[float, float]]) -> str:
    return f"{_path(stretch)}V{HEIGHT}H{stretch[0][0]:.1f}Z"
