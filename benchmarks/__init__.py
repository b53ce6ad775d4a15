"""sublet's costs, measured in the same run as those of its peers. `make bench` runs all of it.

A benchmark is a module with `measure()`, which returns its results, and `report(found) -> bool`, which prints them
and returns True if its goals are met.
"""

NAMES = (
    "decisions",
    "console",
    "cold_start",
    "deaggregation",
    "worker_loop",
    "sketching",
    "contracts",
    "replay",
    "pull",
    "loop_delay",
    "latency",
    "propagation",
    "fan_out",
    "rolling",
    "hot",
    "idle_writes",
    "quiet_shards",
    "quiet_ticks",
    "limits",
    "memory",
    "calls",
    "producing",
    "log_bytes",
    "spark_rows",
    "spark_batches",
    "spark_polls",
)
"""Benchmarks in the order in which `python -m benchmarks` runs them. A name also selects all names that begin with it
and a `_`: `spark`.
"""
