"""sublet's costs, measured in the same run as those of its peers. `make bench` runs all of it; with `ROUNDS=1`
nothing is repeated.

A benchmark is a module with `measure()`, which returns its results, and `report(found) -> bool`, which prints them
and returns True if its goals are met.
"""

import os

NAMES = (
    "console",
    "cold_start",
    "deaggregation",
    "worker_loop",
    "contracts",
    "replay",
    "pull",
    "loop_delay",
    "latency",
    "propagation",
    "fan_out",
    "rolling",
    "idle_writes",
    "quiet_shards",
    "limits",
    "memory",
    "calls",
    "otlp_export",
    "traces",
    "producing",
    "spark_polls",
    "spark_slots",
)
"""Benchmarks in the order in which `python -m benchmarks` runs them."""


def rounds(usual: int) -> int:
    """How often a benchmark measures each thing, in turns."""
    return int(os.environ.get("ROUNDS", usual))
