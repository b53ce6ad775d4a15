"""Measures what a micro-batch costs beyond Spark's own part, and the driver's calls to plan one for a stream of 200
shards.

The empty source is the least that PySpark can run; sublet's has a record per batch, from a stream in memory. A clock
that jumps keeps Kinesis' pace. For the plans each call takes 20 ms, about as long as Kinesis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.spark import environment

GOAL = 1.3
EMPTY, SUBLET = "benchmark_empty", "benchmark_trickle"


class Found(NamedTuple):
    """`millis`: of a batch, by source. `plans`: of latestOffset, `seconds` and `calls` by name."""

    millis: dict[str, float]
    plans: dict[str, dict[str, Any]]


def measure() -> Found | None:
    """Returns None without Spark."""
    found = environment.measured_on_spark("benchmarks.spark.batches")
    return None if found is None else Found(**found)


def report(found: Found | None) -> bool:
    """Print the figures; True if the goal is met."""
    print("Spark: milliseconds of a micro-batch")
    if found is None:
        print(f"  {environment.MISSING}")
        return True
    ratio = found.millis[SUBLET] / found.millis[EMPTY]
    print(f"  sublet {found.millis[SUBLET]:.0f}, an empty Python source {found.millis[EMPTY]:.0f}")
    print(f"  ratio {ratio:.2f}, goal at most {GOAL:g}: {'met' if ratio <= GOAL else 'MISSED'}")
    print("Spark: latestOffset over 200 shards, calls of 20 ms each")
    for name, plan in found.plans.items():
        calls = ", ".join(f"{call} {number}" for call, number in sorted(plan["calls"].items())) or "none"
        print(f"  {name:<40}{plan['seconds']:.2f} s; {calls}")
    return ratio <= GOAL
