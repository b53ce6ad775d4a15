"""A histogram with fixed bounds, as OpenTelemetry and Prometheus have them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from sublet.metric_names import DURATION_BOUNDS


@dataclass(slots=True)
class Histogram:
    """`counts`: the values of each bucket, up to its bound and above the one before; the last has those above all
    bounds. Not thread-safe.
    """

    bounds: tuple[float, ...] = DURATION_BOUNDS
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def up_to(self) -> Iterator[tuple[str, int]]:
        """Each bound as Prometheus writes it, and how many values are not above it."""
        so_far = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            so_far += count
            yield ("+Inf" if bound == float("inf") else str(bound)), so_far

    def copy(self) -> Histogram:
        same = Histogram(self.bounds, self.total)
        same.counts = list(self.counts)
        return same
