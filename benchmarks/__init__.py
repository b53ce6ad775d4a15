"""What sublet costs, each figure beside those of its peers in the same run. `make bench` runs all of it.

A benchmark is a module with `measure()`, which returns what it found, and `report(found) -> bool`, which prints it and
says whether its goals are met.
"""

NAMES = (
    "decisions",
    "cold_start",
    "deaggregation",
    "worker_loop",
    "contracts",
    "replay",
    "pull",
    "loop_delay",
    "latency",
    "propagation",
    "rolling",
    "idle_writes",
    "quiet_shards",
    "limits",
    "memory",
    "calls",
    "log_bytes",
    "spark_rows",
    "spark_batches",
    "spark_polls",
)
"""In the order of `python -m benchmarks`. A name stands for all that begin with it and a `_`: `spark`."""
