"""What calls cost: a design's month in US$, from list prices (on-demand tables, Standard workflows, arm64).

They leave out Kinesis itself, free tiers, and cents, such as a tick's write of the sightings. `sublet cost` and
docs/cost.md take every price from here.
"""

from __future__ import annotations

from typing import NamedTuple

from sublet.decisions.load.worst_shards import WORST
from sublet.settings import MetricsByShard, MetricsLevel

AS_OF, REGION = "November 2026", "us-east-1"
"""Where and when these prices were the list prices."""
HOURS = 730
"""Hours in a month."""
GIGABYTE_SECOND = 0.0000133334
INVOCATION = 0.20e-6
TRANSITION = 25e-6
"""A state that a Standard execution enters."""
EXPRESS_EXECUTION, EXPRESS_GIGABYTE_SECOND, EXPRESS_GIGABYTES = 1e-6, 16.67e-6, 64 / 1024
"""An Express execution: its start, and its duration by memory, billed by chunks of 64 MB; one is assumed. (Step
Functions pricing, us-east-1, November 2026.)"""
WRITE_UNIT = 0.625e-6
READ_UNIT = 0.125e-6
METRIC = 0.30
"""A custom metric costs this much a month. Lambda and Fargate have arm64's prices."""
ALARM, DASHBOARD = 0.10, 3.00
"""An alarm costs this per month for each metric that it uses, and a dashboard this per month. Three dashboards per
account are free.
"""
LOG_GIGABYTE = 0.50
"""A GB of logs, ingested."""
NAT_HOUR, NAT_GIGABYTE = 0.045, 0.045
"""A NAT gateway in one zone: per hour, and per GB through it. (VPC pricing, us-east-1, November 2026.)"""
ENDPOINT_HOUR, ENDPOINT_GIGABYTE = 0.01, 0.01
"""An interface endpoint in one zone; S3's and DynamoDB's are free gateways. (PrivateLink pricing, same date.)"""
PUBLIC_ADDRESS_HOUR = 0.005
"""A task's own public IPv4 address. (VPC pricing.)"""
ENDPOINTS = 4
"""Interface endpoints of a task in ECR's image: Kinesis, CloudWatch Logs, ECR's two. One more for a queue or topic as
on_failure.
"""
INSIGHTS_METRICS = 38
"""Container Insights for one cluster with one service: 13 of the cluster, 15 of the service, 10 of the task's family,
each at a custom metric's price. (CloudWatch User Guide, "Amazon ECS Container Insights metrics".)"""
SHARD_HOUR = 0.015
"""The price of a provisioned shard's hour, with a day's retention. (Kinesis Data Streams pricing, us-east-1, same
date.)
"""
FAN_OUT_SHARD_HOUR, FAN_OUT_GIGABYTE = 0.015, 0.013
"""A registered consumer of a provisioned stream: for each shard and hour, and for each GB that it reads. (Kinesis Data
Streams pricing, us-east-1. A stream on demand is charged by the GB alone, at another price.)"""
RECORD_BYTES = 1_000
"""The size of a record, for traffic through a NAT gateway or an endpoint, with a record a second in each shard."""
FARGATE_CPU_HOUR, FARGATE_GIGABYTE_HOUR = 0.03238, 0.00356

LEASES = 10
"""Leases in one worker, unless stated."""
WINDOW_MINUTES = 14
CONTINUOUS_WINDOWS = 60 / WINDOW_MINUTES
WINDOWS_PER_EXECUTION = 40
CATCH_UP_SECONDS, CATCH_UP_SECONDS_ALONE = 8.0, 5.0
"""Assumed length of a window with records to handle, for ten leases and for one; `calls` prints the measured one."""
CONTINUOUS, EACH_MINUTE, EACH_FIVE = "continuous", "catch_up every minute", "catch_up every 5 min"
CATCH_UP_WINDOWS = {EACH_MINUTE: 60, EACH_FIVE: 12}
COUNTED_WRITES = {EACH_FIVE: 36, EACH_MINUTE: 180, CONTINUOUS: 360}
"""Writes per lease and hour with a record a second, measured by `calls`."""
COUNTED_LOG_BYTES = {EACH_FIVE: 16_000, EACH_MINUTE: 77_000, CONTINUOUS: 11_000}
"""Log bytes per lease and hour, including metrics of the worst shards, measured by `log_bytes`."""

METRICS = 17
"""The metrics of an application without trouble."""
METRICS_BY_SHARD = 3
"""The metrics of a shard: millis_behind_latest, bytes, records."""
METRICS_OF_WORST = 2
"""The metrics of one of the worst shards: the first two of these."""
METRICS_BY_STREAM, ALARMS_BY_STREAM = 3, 3
"""What each stream of an application of several adds: the same three metrics, and the alarms that name a stream."""
ALARMED_METRICS = 29
"""23 alarms on one metric each, three on two."""
LEAN_METRICS, LEAN_ALARMED_METRICS = 5, 11
"""With monitoring=lean: the application's own metrics, and the alarms on them (five) and on AWS' own (six), which cost
nothing themselves.
"""

MANAGER_GIGABYTES = 0.5
TICK_SECONDS = 0.3
TICK_SECONDS_PER_LEASE = 1e-4
"""`limits` measures half of this, on a whole CPU."""
READ_UNITS_PER_LEASE = 0.033
"""A tick uses this many read units for each lease, measured by `limits`."""

MAP_STATES = 1
"""State transitions that the items of an execution share: EachItem."""
ITEMS_PER_EXECUTION = 40
FIRST_WINDOW_STATES = 3
"""State transitions of an item: RunWindow, AfterWindow, Done."""
NEXT_WINDOW_STATES = 3
"""State transitions of each further window: NextWindow, RunWindow, AfterWindow."""

KCL_SHARDS_PER_TASK, KCL_TASKS_MIN = 50, 2
KCL_CPUS, KCL_GIGABYTES = 1, 2
PROCESS_LEASES_PER_TASK, PROCESS_CPUS, PROCESS_GIGABYTES = 10, 0.25, 1
"""Fargate's smallest task: a quarter of a CPU handles ten shards of plain records with a light handler."""
PROCESS_TICKS = 180
"""A process runs this many ticks per hour: one every two thirds of a failover_time of 30 s."""
KCL_WRITES = 20 * 60
"""A KCL writes this often per lease and hour: 18 renewals a minute by kcl-rs in `idle_writes`, and a checkpoint each 30
s.
"""


class WorkerDesign(NamedTuple):
    """`writes` per lease and hour, as counted at the wire."""

    name: str
    leases_per_worker: int
    gigabytes: float
    windows_per_hour: float
    window_seconds: float
    windows_per_execution: int
    ticks_per_hour: float
    writes: float
    is_express: bool = False


VISITS_PER_HOUR = 1
"""How often a quiet shard gets a worker in an hour: `quiet_visit_interval`."""
VISIT_SECONDS = 4.0
"""Assumed length of a window that finds nothing, for ten leases."""
VISIT_WRITES = 2
"""A visit makes two writes per lease: acquire and release."""
PROBE_SECONDS = 1.7e-3
"""Seconds of a tick for each quiet shard: `quiet_ticks` measures 0.5 ms of a whole CPU, and 512 MB are 0.29 of one."""
KEPT_BYTES, KEPT_PER_HOUR = 40, 6
"""What the sightings keep of a quiet shard, and how often it is written."""
TICK_LOG_BYTES, TICK_LOG_BYTES_PER_SHARD = 3_000, 5
"""A tick that finds everything quiet logs this much: Lambda's lines and the metrics."""


class QuietMonth(NamedTuple):
    """A month of shards to which nothing comes, with the ticks that find that."""

    lambda_: float
    step_functions: float
    dynamodb: float
    logs: float

    @property
    def total(self) -> float:
        return sum(self)


def quiet_month(shards: int, *, ticks_per_hour: float = 60, leases: int = LEASES, gigabytes: float = 0.5) -> QuietMonth:
    """Ticks that ask Kinesis and send no worker, and a worker's visit to each lease per hour. Kinesis' calls are free.
    A worker with so many `gigabytes` has `leases` leases.
    """
    ticks, visits = ticks_per_hour * HOURS, min(VISITS_PER_HOUR, ticks_per_hour) * HOURS
    workers = -(-shards // leases)
    manager_seconds = ticks * (TICK_SECONDS + (TICK_SECONDS_PER_LEASE + PROBE_SECONDS) * shards)
    kept = -(-KEPT_BYTES * shards // 1024) * KEPT_PER_HOUR * HOURS
    states = workers * FIRST_WINDOW_STATES + -(-workers // ITEMS_PER_EXECUTION) * MAP_STATES
    return QuietMonth(
        lambda_=GIGABYTE_SECOND * (manager_seconds * MANAGER_GIGABYTES + visits * workers * VISIT_SECONDS * gigabytes)
        + INVOCATION * (ticks + visits * workers),
        step_functions=TRANSITION * visits * states,
        dynamodb=WRITE_UNIT * (VISIT_WRITES * shards * visits + kept)
        + READ_UNIT * ticks * (1 + READ_UNITS_PER_LEASE * shards + KEPT_BYTES * shards / 4096),
        logs=LOG_GIGABYTE
        * (ticks * (TICK_LOG_BYTES + TICK_LOG_BYTES_PER_SHARD * shards) + visits * shards * 1_300)
        / 1e9,
    )


class MonthlyCost(NamedTuple):
    lambda_: float
    step_functions: float
    dynamodb: float

    @property
    def total(self) -> float:
        return sum(self)


def month(design: WorkerDesign, shards: int) -> MonthlyCost:
    workers = -(-shards // design.leases_per_worker)
    windows = workers * design.windows_per_hour * HOURS
    ticks = design.ticks_per_hour * HOURS
    manager_seconds = ticks * (TICK_SECONDS + TICK_SECONDS_PER_LEASE * shards)
    return MonthlyCost(
        lambda_=GIGABYTE_SECOND
        * (windows * design.window_seconds * design.gigabytes + manager_seconds * MANAGER_GIGABYTES)
        + INVOCATION * (windows + ticks),
        step_functions=HOURS * (_express(design, workers) if design.is_express else _standard(design, workers)),
        dynamodb=WRITE_UNIT * design.writes * shards * HOURS + READ_UNIT * ticks * (1 + READ_UNITS_PER_LEASE * shards),
    )


def _standard(design: WorkerDesign, workers: int) -> float:
    """An hour of Standard executions: each state entered."""
    each_item = FIRST_WINDOW_STATES + NEXT_WINDOW_STATES * (design.windows_per_execution - 1)
    executions = -(-workers // ITEMS_PER_EXECUTION)
    rounds = design.windows_per_hour / design.windows_per_execution
    return TRANSITION * rounds * (workers * each_item + executions * MAP_STATES)


def _express(design: WorkerDesign, workers: int) -> float:
    """An hour of Express executions of one window: an execution lasts as long as its longest window."""
    executions = -(-workers // ITEMS_PER_EXECUTION) * design.windows_per_hour
    return executions * (EXPRESS_EXECUTION + EXPRESS_GIGABYTE_SECOND * EXPRESS_GIGABYTES * design.window_seconds)


def event_source_mapping(invocations_per_hour: float, seconds: float, gigabytes: float, shards: int) -> float:
    """Lambda's own event source mapping. It costs only its invocations, and there are none while no records arrive."""
    return shards * HOURS * invocations_per_hour * (INVOCATION + GIGABYTE_SECOND * seconds * gigabytes)


def kcl_on_fargate(shards: int) -> float:
    tasks = max(KCL_TASKS_MIN, -(-shards // KCL_SHARDS_PER_TASK))
    return HOURS * (tasks * _task(KCL_CPUS, KCL_GIGABYTES) + shards * WRITE_UNIT * KCL_WRITES)


def process_on_fargate(
    shards: int, *, writes: float, leases_per_task: int, tasks_min: int, cpus: float, gigabytes: float
) -> float:
    """`sublet run`. Its ticks scan the leases and the sightings as the lease manager's do."""
    tasks = max(tasks_min, -(-shards // leases_per_task))
    scans = READ_UNIT * tasks * PROCESS_TICKS * (1 + READ_UNITS_PER_LEASE * shards)
    return HOURS * (tasks * _task(cpus, gigabytes) + shards * WRITE_UNIT * writes + scans)


def _task(cpus: float, gigabytes: float) -> float:
    return cpus * FARGATE_CPU_HOUR + gigabytes * FARGATE_GIGABYTE_HOUR


def metrics_and_alarms(
    shards: int,
    *,
    monitoring: MetricsLevel = MetricsLevel.FULL,
    by_shard: MetricsByShard | None = None,
    streams: int = 1,
) -> float:
    """Metrics and alarms, and with `full` the dashboard. `by_shard`: by default none with `lean`, and otherwise worst.
    `streams`: how many streams have these `shards` together.
    """
    is_lean = monitoring is MetricsLevel.LEAN
    of_shards = {
        MetricsByShard.ALL: METRICS_BY_SHARD * shards,
        MetricsByShard.WORST: METRICS_OF_WORST * min(shards, WORST),
        MetricsByShard.NONE: 0,
    }
    of_shard = of_shards[by_shard or (MetricsByShard.NONE if is_lean else MetricsByShard.WORST)]
    if is_lean:
        return METRIC * (LEAN_METRICS + of_shard) + ALARM * LEAN_ALARMED_METRICS
    metrics = METRICS + of_shard
    by_stream = METRIC * METRICS_BY_STREAM + ALARM * ALARMS_BY_STREAM if streams > 1 else 0
    return METRIC * metrics + ALARM * ALARMED_METRICS + DASHBOARD + streams * by_stream


def through_nat(shards: int, zones: int = 1) -> float:
    return HOURS * NAT_HOUR * zones + NAT_GIGABYTE * _gigabytes(shards)


def through_endpoints(shards: int, zones: int = 1) -> float:
    return HOURS * ENDPOINT_HOUR * ENDPOINTS * zones + ENDPOINT_GIGABYTE * _gigabytes(shards)


def fan_out(shards: int, bytes_per_month: float | None = None) -> float:
    """One registered consumer. `bytes_per_month`: what the whole stream brings; by default a record a second in each
    shard.
    """
    gigabytes = _gigabytes(shards) if bytes_per_month is None else bytes_per_month / 1e9
    return HOURS * FAN_OUT_SHARD_HOUR * shards + FAN_OUT_GIGABYTE * gigabytes


def container_insights(_shards: int) -> float:
    return METRIC * INSIGHTS_METRICS


def _gigabytes(shards: int) -> float:
    return shards * RECORD_BYTES * 3600 * HOURS / 1e9


def logs(shards: int, mode: str) -> float:
    return LOG_GIGABYTE * COUNTED_LOG_BYTES[mode] * HOURS * shards / 1e9
