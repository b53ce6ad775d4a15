"""What calls cost: a design's month in US$, from us-east-1's list prices (arm64, on-demand tables, Standard workflows)."""

from __future__ import annotations

from typing import NamedTuple

HOURS = 730
"""In a month."""
GIGABYTE_SECOND = 0.0000133334
INVOCATION = 0.20e-6
TRANSITION = 25e-6
WRITE_UNIT = 0.625e-6
READ_UNIT = 0.125e-6

MANAGER_GIGABYTES = 0.5
TICK_SECONDS = 0.3
TICK_SECONDS_PER_LEASE = 1e-4
READ_UNITS_PER_LEASE = 0.033
"""Of a tick: `limits` measures them."""

FIRST_WINDOW_STATES = 5
"""Of an execution of one item: EachItem, Start, RunWindow, AfterWindow, Done. (Up to 40 items share the first.)"""
NEXT_WINDOW_STATES = 3
"""NextWindow, RunWindow, AfterWindow."""


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
    """Without Kinesis itself and logs."""
    workers = -(-shards // design.leases_per_worker)
    windows = workers * design.windows_per_hour * HOURS
    ticks = design.ticks_per_hour * HOURS
    manager_seconds = ticks * (TICK_SECONDS + TICK_SECONDS_PER_LEASE * shards)
    states = (
        FIRST_WINDOW_STATES + NEXT_WINDOW_STATES * (design.windows_per_execution - 1)
    ) / design.windows_per_execution
    return Month(
        lambda_=GIGABYTE_SECOND
        * (windows * design.window_seconds * design.gigabytes + manager_seconds * MANAGER_GIGABYTES)
        + INVOCATION * (windows + ticks),
        step_functions=TRANSITION * windows * states,
        dynamodb=WRITE_UNIT * design.writes * shards * HOURS
        + READ_UNIT * ticks * (1 + READ_UNITS_PER_LEASE * shards),
    )
