"""The rows of the tables in docs/cost.md, from the library's prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from sublet.operate.rules.prices import (
    CATCH_UP_SECONDS,
    CATCH_UP_SECONDS_ALONE,
    CATCH_UP_WINDOWS,
    CONTINUOUS,
    CONTINUOUS_WINDOWS,
    COUNTED_WRITES,
    EACH_FIVE,
    EACH_MINUTE,
    HOURS,
    KCL_CPUS,
    KCL_GIGABYTES,
    KCL_SHARDS_PER_TASK,
    KCL_TASKS_MIN,
    LEASES,
    PROCESS_CPUS,
    PROCESS_GIGABYTES,
    PROCESS_LEASES_PER_TASK,
    PUBLIC_ADDRESS_HOUR,
    WINDOW_MINUTES,
    WINDOWS_PER_EXECUTION,
    WorkerDesign,
    container_insights,
    event_source_mapping,
    fan_out,
    kcl_on_fargate,
    logs,
    metrics_and_alarms,
    month,
    process_on_fargate,
    quiet_month,
    through_endpoints,
    through_nat,
)
from sublet.settings import MetricsByShard, MetricsLevel

SHARDS = (1, 10, 100, 1_000)
"""The table's columns."""


class WholeBill(NamedTuple):
    """A month of a design: what runs it, what watches it on either level, its log, and where it runs."""

    runs: float
    lean: float
    full: float
    logs: float
    network: float

    @property
    def total(self) -> float:
        return self.runs + self.lean + self.logs + self.network

    @property
    def total_full(self) -> float:
        return self.total - self.lean + self.full


def whole(shards: int) -> Mapping[str, WholeBill]:
    """A month's bill by design."""
    five, minute, express, *_ = (month(each, shards).total for each in designs(COUNTED_WRITES))
    process = others(COUNTED_WRITES[CONTINUOUS])["`sublet run` on Fargate: 10 leases in 0.25 CPU and 1 GB"](shards)
    lean, full = (metrics_and_alarms(shards, monitoring=level) for level in (MetricsLevel.LEAN, MetricsLevel.FULL))
    insights = logs(shards, CONTINUOUS) + container_insights(shards)
    return {
        "catch_up each minute, the default": WholeBill(minute, lean, full, logs(shards, EACH_MINUTE), 0.0),
        "the same, `state_machine_type=EXPRESS`": WholeBill(express, lean, full, logs(shards, EACH_MINUTE), 0.0),
        "catch_up every 5 min": WholeBill(five, lean, full, logs(shards, EACH_FIVE), 0.0),
        "`sublet run` on Fargate, with public addresses": WholeBill(
            process, lean, full, insights, HOURS * PUBLIC_ADDRESS_HOUR
        ),
        "the same behind interface endpoints": WholeBill(process, lean, full, insights, through_endpoints(shards)),
        "the same behind a NAT gateway": WholeBill(process, lean, full, insights, through_nat(shards)),
    }


def designs(writes: Mapping[str, float]) -> list[WorkerDesign]:
    """The rows of sublet on Lambda. A worker of one lease writes as much for it as one of ten does for each."""

    def catch_up(
        name: str, mode: str, leases: int, gigabytes: float, seconds: float, *, is_express: bool = False
    ) -> WorkerDesign:
        times = CATCH_UP_WINDOWS[mode]
        return WorkerDesign(name, leases, gigabytes, times, seconds, 1, times, writes[mode], is_express)

    def continuous(name: str, leases: int, gigabytes: float) -> WorkerDesign:
        pace = CONTINUOUS_WINDOWS, WINDOW_MINUTES * 60, WINDOWS_PER_EXECUTION, 60
        return WorkerDesign(name, leases, gigabytes, *pace, writes[CONTINUOUS])

    return [
        catch_up("catch_up: 8 s every 5 min, 10 leases in 512 MB", EACH_FIVE, LEASES, 0.5, CATCH_UP_SECONDS),
        catch_up("the same each minute", EACH_MINUTE, LEASES, 0.5, CATCH_UP_SECONDS),
        catch_up(
            "the same each minute, `state_machine_type=EXPRESS`",
            EACH_MINUTE,
            LEASES,
            0.5,
            CATCH_UP_SECONDS,
            is_express=True,
        ),
        catch_up("catch_up: 5 s every 5 min, one in 256 MB", EACH_FIVE, 1, 0.25, CATCH_UP_SECONDS_ALONE),
        continuous("continuous: 10 leases in 512 MB", LEASES, 0.5),
        continuous("continuous: one lease in 256 MB", 1, 0.25),
    ]


def others(writes: float) -> Mapping[str, Callable[[int], float]]:
    """The other rows, by shards. `writes`: of a continuous lease, as above."""
    mapping = partial(_by_shards, event_source_mapping)

    def quiet(shards: int) -> float:
        return quiet_month(shards).total

    small = partial(
        process_on_fargate,
        writes=writes,
        leases_per_task=PROCESS_LEASES_PER_TASK,
        tasks_min=1,
        cpus=PROCESS_CPUS,
        gigabytes=PROCESS_GIGABYTES,
    )
    large = partial(
        process_on_fargate,
        writes=writes,
        leases_per_task=KCL_SHARDS_PER_TASK,
        tasks_min=KCL_TASKS_MIN,
        cpus=KCL_CPUS,
        gigabytes=KCL_GIGABYTES,
    )
    return {
        "catch_up each minute while nothing comes, with its logs": quiet,
        "`sublet run` on Fargate: 10 leases in 0.25 CPU and 1 GB": small,
        "`sublet run` on Fargate: 50 in 1 CPU and 2 GB, two tasks or more": large,
        "KCL on Fargate: 50 shards in 1 CPU and 2 GB, two tasks or more": kcl_on_fargate,
        "event source mapping: 256 MB for 100 ms each minute": mapping(60, 0.1, 0.25),
        "event source mapping: for 200 ms each 10 s": mapping(360, 0.2, 0.25),
        "event source mapping: for 100 ms each second": mapping(3600, 0.1, 0.25),
        "*beside each:* logs, catch_up every 5 min": partial(logs, mode=EACH_FIVE),
        "logs, catch_up each minute": partial(logs, mode=EACH_MINUTE),
        "logs, continuous": partial(logs, mode=CONTINUOUS),
        "metrics and alarms, `monitoring=lean`": partial(metrics_and_alarms, monitoring=MetricsLevel.LEAN),
        "metrics, alarms and dashboard, `monitoring=full`": metrics_and_alarms,
        "the last with `metrics_by_shard=all`": partial(metrics_and_alarms, by_shard=MetricsByShard.ALL),
        "the last with `metrics_by_shard=none`": partial(metrics_and_alarms, by_shard=MetricsByShard.NONE),
        "*beside continuous and Fargate, for `reading=fan_out`:* a registered consumer of a provisioned "
        "stream": fan_out,
        "*beside Fargate:* Container Insights, which `KinesisConsumerService` switches on": container_insights,
        "a NAT gateway in one zone, with records of 1 KB through it": through_nat,
        "or four interface endpoints in one zone": through_endpoints,
    }


def _by_shards(cost: Callable[..., float], *before: float) -> Callable[[int], float]:
    return lambda shards: cost(*before, shards)
