"""What a load costs a month in each way to consume it, and the cheapest way for a latency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.plurals import counted
from sublet.operate.rules.prices import (
    CONTINUOUS,
    CONTINUOUS_WINDOWS,
    COUNTED_LOG_BYTES,
    COUNTED_WRITES,
    EACH_FIVE,
    HOURS,
    KCL_CPUS,
    KCL_GIGABYTES,
    KCL_SHARDS_PER_TASK,
    KCL_TASKS_MIN,
    LEASES,
    LOG_GIGABYTE,
    PROCESS_CPUS,
    PROCESS_GIGABYTES,
    PROCESS_LEASES_PER_TASK,
    PUBLIC_ADDRESS_HOUR,
    WINDOW_MINUTES,
    WINDOWS_PER_EXECUTION,
    WorkerDesign,
    event_source_mapping,
    fan_out,
    kcl_on_fargate,
    metrics_and_alarms,
    month,
    process_on_fargate,
    quiet_month,
)
from sublet.settings import MetricsByShard, MetricsLevel

SCHEDULES = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 4, 10, 30, 60))
PACKINGS = ((LEASES, 0.5), (1, 0.25))
"""Leases in a worker, and its memory in GB."""
WRITES_PER_WINDOW = 3
"""Writes to a lease with records in one window, as counted at the wire for both schedules of docs/cost.md."""
LOG_BYTES_PER_WINDOW = COUNTED_LOG_BYTES[EACH_FIVE] / 12
WINDOW_SECONDS = 2.5
"""Seconds that a window takes beside the handler's time: the linger at a shard's tip, and the window's calls."""
SECONDS_TO_START = 5.0
"""How long it takes from a tick to the first record in the handler: the tick, an execution, perhaps a cold start."""
AT_ONCE = timedelta(seconds=1)
"""A shard is polled about once a second."""
PUSHED = timedelta(milliseconds=200)
"""The latency of fan-out: 70 ms on average (Kinesis Developer Guide, "Develop enhanced fan-out consumers")."""

ESM_GIGABYTES = 0.25
ESM_BATCHES = (timedelta(seconds=0), timedelta(minutes=1), timedelta(minutes=5))
"""MaximumBatchingWindowInSeconds: 300 at most."""
ESM_RECORDS_MAX, ESM_BYTES_MAX = 10_000, 4.5e6
"""The limits of a batch: a payload has 6 MB, and carries its data in base64."""
ESM_SECONDS = 0.03
"""Seconds that an invocation takes beside the handler's time."""


class StreamLoad(Struct, frozen=True):
    """The load of the whole stream, spread evenly. `handler`: a record's share of a handler call."""

    shards: int
    records_per_second: float
    bytes_per_second: float
    handler: timedelta = timedelta(milliseconds=1)

    @property
    def records(self) -> float:
        """Records a second in one shard."""
        return self.records_per_second / self.shards

    def shards_with_records(self, every: timedelta) -> int:
        """Returns how many shards have records in a tick, on average, if records arrive independently. No worker is
        sent to the others.
        """
        return math.ceil(self.shards * -math.expm1(-self.records * every.total_seconds()))

    @property
    def busy(self) -> float:
        """How many seconds the handler works for one second of one shard."""
        return self.records * self.handler.total_seconds()


class PricedDesign(Struct, frozen=True):
    """One way to consume the load. Dollars are per month.

    latency   how long a record waits for the handler at most, if nothing fails
    beside    dollars for metrics, alarms, the log, and an address for each container
    needs     the settings, or whatever else it takes
    is_ours   whether it is sublet
    """

    name: str
    latency: timedelta
    runs: float
    beside: float
    needs: str
    is_ours: bool = True

    @property
    def total(self) -> float:
        return self.runs + self.beside


def offers(
    load: StreamLoad,
    *,
    monitoring: MetricsLevel = MetricsLevel.LEAN,
    metrics_by_shard: MetricsByShard | None = None,
    streams: int = 1,
) -> tuple[PricedDesign, ...]:
    """All designs that can keep up with the load, the cheapest first. `streams`: how many streams bring it. Without
    `metrics_by_shard`, those that `monitoring` implies.
    """
    watched = metrics_and_alarms(load.shards, monitoring=monitoring, by_shard=metrics_by_shard, streams=streams)
    ours = [*_on_lambda(load, watched), *_in_containers(load, watched)]
    found = [*ours, *_by_fan_out(ours, load), *_event_source_mappings(load)]
    return tuple(sorted(found, key=lambda offer: offer.total))


def cheapest(found: Sequence[PricedDesign], within: timedelta, *, ours: bool) -> PricedDesign | None:
    """The cheapest design whose latency is at most `within`; None if there is none. `ours`: only
    sublet's designs.
    """
    fit = [offer for offer in found if offer.latency <= within and (offer.is_ours or not ours)]
    return min(fit, key=lambda offer: offer.total, default=None)


def _on_lambda(load: StreamLoad, watched: float) -> Iterator[PricedDesign]:
    for every in SCHEDULES:
        for leases, gigabytes in PACKINGS:
            seconds = WINDOW_SECONDS + load.busy * every.total_seconds()
            if seconds >= every.total_seconds():
                continue
            windows = timedelta(hours=1) / every
            design = WorkerDesign("", leases, gigabytes, windows, seconds, 1, windows, WRITES_PER_WINDOW * windows)
            awake = load.shards_with_records(every)
            quiet, ticks = (
                quiet_month(shards, ticks_per_hour=windows, leases=leases, gigabytes=gigabytes)
                for shards in (load.shards - awake, 0)
            )
            logs = quiet.logs + _log(awake, LOG_BYTES_PER_WINDOW * windows)
            yield PricedDesign(
                f"catch_up every {_minutes(every)}, {counted(leases, 'lease')} in {gigabytes * 1024:.0f} MB",
                every + timedelta(seconds=SECONDS_TO_START + seconds),
                month(design, awake).total + quiet.total - quiet.logs - (ticks.total - ticks.logs),
                watched + logs,
                f'tick="rate({_minutes(every)})", leases_per_worker={leases}, worker_memory={gigabytes * 1024:.0f}',
            )
    for leases, gigabytes in PACKINGS:
        design = WorkerDesign(
            "",
            leases,
            gigabytes,
            CONTINUOUS_WINDOWS,
            WINDOW_MINUTES * 60,
            WINDOWS_PER_EXECUTION,
            60,
            COUNTED_WRITES[CONTINUOUS],
        )
        yield PricedDesign(
            f"continuous, {counted(leases, 'lease')} in {gigabytes * 1024:.0f} MB",
            AT_ONCE,
            month(design, load.shards).total,
            watched + _log(load.shards, COUNTED_LOG_BYTES[CONTINUOUS]),
            f"mode=continuous, window={WINDOW_MINUTES}m, leases_per_worker={leases}, "
            f"worker_memory={gigabytes * 1024:.0f}",
        )


def _in_containers(load: StreamLoad, watched: float) -> Iterator[PricedDesign]:
    log = _log(load.shards, COUNTED_LOG_BYTES[CONTINUOUS])
    for leases, tasks_min, cpus, gigabytes in (
        (PROCESS_LEASES_PER_TASK, 1, PROCESS_CPUS, PROCESS_GIGABYTES),
        (KCL_SHARDS_PER_TASK, KCL_TASKS_MIN, KCL_CPUS, KCL_GIGABYTES),
    ):
        runs = process_on_fargate(
            load.shards,
            writes=COUNTED_WRITES[CONTINUOUS],
            leases_per_task=leases,
            tasks_min=tasks_min,
            cpus=cpus,
            gigabytes=gigabytes,
        )
        tasks = max(tasks_min, math.ceil(load.shards / leases))
        yield PricedDesign(
            f"sublet run on Fargate, {leases} shards in {cpus:g} CPU and {gigabytes:g} GB",
            AT_ONCE,
            runs,
            watched + log + tasks * HOURS * PUBLIC_ADDRESS_HOUR,
            f"{counted(tasks, 'task')}; behind a NAT gateway or endpoints it is dearer",
        )
    tasks = max(KCL_TASKS_MIN, math.ceil(load.shards / KCL_SHARDS_PER_TASK))
    yield PricedDesign(
        f"Java's KCL on Fargate, {KCL_SHARDS_PER_TASK} shards in {KCL_CPUS} CPU and {KCL_GIGABYTES} GB",
        AT_ONCE,
        kcl_on_fargate(load.shards),
        tasks * HOURS * PUBLIC_ADDRESS_HOUR,
        f"{counted(tasks, 'task')}; its metrics, alarms and log are not counted",
        is_ours=False,
    )


def _by_fan_out(ours: Sequence[PricedDesign], load: StreamLoad) -> Iterator[PricedDesign]:
    """Those of our designs that run all the time, with a registered consumer."""
    registered = fan_out(load.shards, load.bytes_per_second * 3600 * HOURS)
    for offer in ours:
        if offer.is_ours and offer.latency == AT_ONCE:
            yield replace(
                offer,
                name=f"{offer.name}, by fan-out",
                latency=PUSHED,
                beside=offer.beside + registered,
                needs=f"reading=fan_out; {offer.needs}; priced for a provisioned stream",
            )


def _event_source_mappings(load: StreamLoad) -> Iterator[PricedDesign]:
    for window in ESM_BATCHES:
        calls = _invocations(load, window)
        seconds = ESM_SECONDS + (load.busy / calls if calls else 0)
        batched = f", batches of {_minutes(window)}" if window else ""
        yield PricedDesign(
            f"Lambda's event source mapping{batched}",
            max(AT_ONCE, window),
            event_source_mapping(calls * 3600, seconds, ESM_GIGABYTES, load.shards),
            0.0,
            "no KPL aggregates, no records over 4.5 MB, no position that can be seen or moved",
            is_ours=False,
        )


def _invocations(load: StreamLoad, window: timedelta) -> float:
    """Invocations a second for one shard. A batch ends when it is full, or when the window that its first record began
    is over.
    """
    if not load.records:
        return 0.0
    by_time = 1 / (max(AT_ONCE, window).total_seconds() + 1 / load.records)
    by_size = max(load.records / ESM_RECORDS_MAX, load.bytes_per_second / load.shards / ESM_BYTES_MAX)
    return max(by_time, by_size)


def _log(shards: int, bytes_per_hour: float) -> float:
    return LOG_GIGABYTE * bytes_per_hour * HOURS * shards / 1e9


def _minutes(duration: timedelta) -> str:
    return counted(duration // timedelta(minutes=1), "minute")
