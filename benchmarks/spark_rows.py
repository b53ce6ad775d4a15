"""Spark: rows per second through the source's own `read()`, of KPL aggregates in a stream in memory, into a sink that
drops them.

By CPU time of all processes, the JVM and the Python worker, on one core. "Prebuilt RecordBatches" is transport alone,
the ceiling; with MD5 it shows what remains if everything else costs nothing. "tuples": deaggregated by sublet, and
passed to Spark as Python tuples.
"""

from __future__ import annotations

from benchmarks import peers
from benchmarks.spark import environment
from benchmarks.spark.names import AGG, CEILING, PROVEN, SUBLET

Rates = dict[str, dict[str, tuple[float, float]]]
"""Rows per second of CPU and of wall time, by bytes of data and way of reading."""


def measure() -> Rates | None:
    """Returns None without Spark."""
    rates: Rates | None = environment.measured_on_spark("benchmarks.spark.rows")
    return rates


def report(rates: Rates | None) -> bool:
    """Print the table. It has no goal: MD5 is the format's own check, and limits every reader."""
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
    for size, found in rates.items():
        shares = (f"{way} {found[SUBLET][0] / found[way][0]:.2f}" for way in (CEILING, PROVEN, AGG) if way in found)
        print(f"  {size} B: {SUBLET} against {', '.join(shares)}")
    if AGG not in rates[sizes[0]]:
        print(f"  {peers.MISSING}")
    return True
