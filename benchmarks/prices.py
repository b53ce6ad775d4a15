"""What calls cost: a design's month in US$, from us-east-1's list prices as known in 2026 (on-demand tables, Standard workflows).

Left out: Kinesis itself, logs, CloudWatch's metrics (METRICS_BY_SHARD), free tiers, and cents, such as a sighting's write a tick.
"""

from __future__ import annotations

from typing import NamedTuple

HOURS = 730
"""In a month."""
GIGABYTE_SECOND = 0.0000133334
INVOCATION = 0.20e-6
TRANSITION = 25e-6
WRITE_UNIT = 0.625e-6
READ_UNIT = 0.125e-6
METRIC = 0.30
"""A custom metric, a month. Lambda, Fargate: arm64."""
FARGATE_CPU_HOUR, FARGATE_GIGABYTE_HOUR = 0.03238, 0.00356

METRICS_BY_SHARD = 3
"""millis_behind_latest, bytes, records."""

MANAGER_GIGABYTES = 0.5
TICK_SECONDS = 0.3
TICK_SECONDS_PER_LEASE = 1e-4
"""`limits` has half of that, on a whole CPU."""
READ_UNITS_PER_LEASE = 0.033
"""Of a tick: `limits` measures them."""

MAP_STATES = 1
"""EachItem, shared by the items of an execution."""
ITEMS_PER_EXECUTION = 40
FIRST_WINDOW_STATES = 3
"""RunWindow, AfterWindow, Done."""
NEXT_WINDOW_STATES = 3
"""NextWindow, RunWindow, AfterWindow."""

KCL_SHARDS_PER_TASK, KCL_TASKS_MIN = 50, 2
KCL_CPUS, KCL_GIGABYTES = 1, 2
KCL_WRITES = 20 * 60
"""Per lease and hour: what kcl-rs renews in `idle_writes`, 18 a minute, and a checkpoint each 30 s."""


class Design(NamedTuple):
    """`writes` per lease and hour, as counted at the wire."""

    name: str
    leases_per_worker: int
    gigabytes: float
    windows_per_hour: float
    window_seconds: float
    windows_per_execution: int
    ticks_per_hour: float
    writes: float


class Month(NamedTuple):
    lambda_: float
    step_functions: float
    dynamodb: float

    @property
    def total(self) -> float:
        return sum(self)


def month(design: Design, shards: int) -> Month:
    workers = -(-shards // design.leases_per_worker)
    windows = workers * design.windows_per_hour * HOURS
    ticks = design.ticks_per_hour * HOURS
    manager_seconds = ticks * (TICK_SECONDS + TICK_SECONDS_PER_LEASE * shards)
    return Month(
        lambda_=GIGABYTE_SECOND
        * (windows * design.window_seconds * design.gigabytes + manager_seconds * MANAGER_GIGABYTES)
        + INVOCATION * (windows + ticks),
        step_functions=TRANSITION * _states_per_hour(design, workers) * HOURS,
        dynamodb=WRITE_UNIT * design.writes * shards * HOURS
        + READ_UNIT * ticks * (1 + READ_UNITS_PER_LEASE * shards),
    )


def _states_per_hour(design: Design, workers: int) -> float:
    each_item = FIRST_WINDOW_STATES + NEXT_WINDOW_STATES * (design.windows_per_execution - 1)
    executions = -(-workers // ITEMS_PER_EXECUTION)
    rounds = design.windows_per_hour / design.windows_per_execution
    return rounds * (workers * each_item + executions * MAP_STATES)


def event_source_mapping(invocations_per_hour: float, seconds: float, gigabytes: float, shards: int) -> float:
    """Lambda's own. It costs nothing but the invocations, and makes none while nothing arrives."""
    return shards * HOURS * invocations_per_hour * (INVOCATION + GIGABYTE_SECOND * seconds * gigabytes)


def kcl_on_fargate(shards: int) -> float:
    tasks = max(KCL_TASKS_MIN, -(-shards // KCL_SHARDS_PER_TASK))
    task = KCL_CPUS * FARGATE_CPU_HOUR + KCL_GIGABYTES * FARGATE_GIGABYTE_HOUR
    return HOURS * (tasks * task + shards * WRITE_UNIT * KCL_WRITES)
