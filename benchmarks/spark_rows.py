"""Spark: rows a second through the source's own `read()`, of KPL aggregates in a stream in memory, into a sink that drops them.

By CPU time of everything that works for it, the JVM and the Python worker, on one core. "Prebuilt RecordBatches" is
transport alone, the ceiling; with MD5 it is what is left when everything else costs nothing. "tuples": deaggregated by
sublet, and given to Spark as Python tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import peers
from benchmarks.spark import environment
from benchmarks.spark.names import AGG, CEILING, PROVEN, SUBLET


class Goal(NamedTuple):
    size: str
    against: str
    ratio: float


GOALS = (
    Goal("100", CEILING, 0.5),
    Goal("1024", CEILING, 0.7),
    Goal("100", AGG, 10.0),
    Goal("1024", AGG, 10.0),
)

Rates = dict[str, dict[str, tuple[float, float]]]
"""Rows a second of CPU and of the clock, by bytes of data and way of reading."""


def measure() -> Rates | None:
    """None where there is no Spark."""
    rates: Rates | None = environment.measured_on_spark("benchmarks.spark.rows")
    return rates


def report(rates: Rates | None) -> bool:
    """Print the table; whether the goals are met that can be judged."""
    print("Spark: rows a second of CPU through read() (and of the clock; of the ceiling)")
    if rates is None:
        print(f"  {environment.MISSING}")
        return True
    sizes = list(rates)
    print(f"{'':<32}" + "".join(f"{size + ' B':>26}" for size in sizes))
    for way in rates[sizes[0]]:
        cells = (
            f"{rates[size][way][0] / 1e3:,.0f}k ({rates[size][way][1] / 1e3:,.0f}k; "
            f"{rates[size][way][0] / rates[size][CEILING][0]:.2f})"
            for size in sizes
        )
        print(f"{way:<32}" + "".join(f"{cell:>26}" for cell in cells))
    verdicts = list(_verdicts(rates))
    for text, met in verdicts:
        print(f"  {text}: {'met' if met else 'MISSED'}")
    if AGG not in rates[sizes[0]]:
        print(f"  {peers.MISSING}")
    return all(met for _, met in verdicts)


def _verdicts(rates: Rates) -> Iterator[tuple[str, bool]]:
    for goal in GOALS:
        found = rates[goal.size]
        if goal.against in found:
            ratio, proven, ceiling = (
                found[way][0] / found[goal.against][0] for way in (SUBLET, PROVEN, CEILING)
            )
            text = f"{goal.size} B: {SUBLET} / {goal.against} = {ratio:.2f}, goal {goal.ratio:g}"
            yield f"{text} (MD5 alone: {proven:.2f}, the ceiling: {ceiling:.2f})", ratio >= goal.ratio
