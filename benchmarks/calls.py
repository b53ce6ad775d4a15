"""Counts AWS calls per lease and hour in each mode at the wire, and what they cost, for the tables of docs/cost.md.

Runs the real adapters against the embedded AWS, through counting proxies, with ten leases in one worker. Windows of
two lengths separate the calls that do not depend on the length (acquire, open, release) from the continuous ones;
both are scaled to an hour. `idle`: no records arrive. `steady`: a record a second in each shard.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import boto3
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.decisions.manager.dispatching import WORKER_STARTS_WITHIN
from sublet.decisions.manager.packing import WorkerItem
from sublet.engine.manager.tick import LeaseManager
from sublet.engine.worker.worker import LeaseWorker
from sublet.handlers.batch import HandlerFunctions
from sublet.operate.rules.prices import CATCH_UP_WINDOWS, CONTINUOUS, CONTINUOUS_WINDOWS, LEASES, month
from sublet.settings import Mode, Settings
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryDispatcher, memory_ports

from benchmarks.counting_proxy import CountingProxy, counting_proxy
from docs.cost_rows import SHARDS, designs, others
from infra.local.embedded import REGION, EmbeddedAws, embedded_aws

SHORT, LONG = timedelta(seconds=25), timedelta(seconds=85)
"""A window's time from its start to its last poll."""
Calls = Mapping[str, float]


class Found(NamedTuple):
    """`per_hour`: calls per lease and hour by mode, traffic and operation. `tick`: of one tick over all the leases."""

    tick: Calls
    window_seconds: Mapping[str, float]
    per_hour: Mapping[tuple[str, str], Calls]


def measure() -> Found:
    per_hour: dict[tuple[str, str], Calls] = {}
    window_seconds: dict[str, float] = {}
    with embedded_aws() as aws, _proxied(aws) as wire:
        for traffic in ("idle", "steady"):
            with _consumer(aws, wire, f"calls-{traffic}", is_fed=traffic == "steady") as consumer:
                tick = consumer.tick()
                once, each_second = consumer.continuous()
                per_hour[CONTINUOUS, traffic] = _sum((once, CONTINUOUS_WINDOWS), (each_second, 3600))
                started = time.perf_counter()
                window = consumer.window(Mode.CATCH_UP, LONG)
                window_seconds[traffic] = time.perf_counter() - started - WORKER_STARTS_WITHIN.total_seconds()
                for mode, times in CATCH_UP_WINDOWS.items():
                    per_hour[mode, traffic] = _sum((window, times))
    return Found(tick, window_seconds, per_hour)


def report(found: Found) -> bool:
    """Print the tables. There is no goal."""
    operations = sorted({name for calls in found.per_hour.values() for name, n in calls.items() if n >= 0.5})
    print(f"calls: per lease and hour, {LEASES} leases in a worker")
    print(f"  {'':<30}" + "".join(f"{name:>18}" for name in operations))
    for (mode, traffic), calls in found.per_hour.items():
        print(f"  {mode + ', ' + traffic:<30}" + "".join(f"{calls.get(name, 0):>18,.0f}" for name in operations))
    tick = ", ".join(f"{name} {number:g}" for name, number in sorted(found.tick.items()))
    windows = ", ".join(f"{traffic} {seconds:.1f} s" for traffic, seconds in found.window_seconds.items())
    print(f"  a tick over all {LEASES} leases: {tick}; a window of catch_up: {windows}")
    _report_prices(found)
    return True


def _report_prices(found: Found) -> None:
    print(
        f"  US$ a month, steady, by shards; of the last: Lambda + Step Functions + DynamoDB\n  {'':<46}",
        end="",
    )
    print("".join(f"{shards:>10,}" for shards in SHARDS))
    writes = {mode: calls["UpdateItem"] for (mode, traffic), calls in found.per_hour.items() if traffic == "steady"}
    for design in designs(writes):
        months = [month(design, shards) for shards in SHARDS]
        parts = " + ".join(f"{part:,.0f}" for part in months[-1])
        print(f"  {design.name:<46}" + "".join(f"{each.total:>10,.1f}" for each in months) + f"  {parts}")
    for name, cost in others(writes[CONTINUOUS]).items():
        print(f"  {name:<46}" + "".join(f"{cost(shards):>10,.2f}" for shards in SHARDS))


def _sum(*parts: tuple[Calls, float]) -> Calls:
    total: dict[str, float] = {}
    for calls, times in parts:
        for name, number in calls.items():
            total[name] = total.get(name, 0) + number * times
    return total


class Wire(NamedTuple):
    kinesis: CountingProxy
    dynamodb: CountingProxy

    def counts(self) -> Counter[str]:
        return self.kinesis.counts + self.dynamodb.counts


@contextmanager
def _proxied(aws: EmbeddedAws) -> Iterator[Wire]:
    with (
        counting_proxy(aws.environment["AWS_ENDPOINT_URL_KINESIS"]) as kinesis,
        counting_proxy(aws.environment["AWS_ENDPOINT_URL"]) as dynamodb,
    ):
        yield Wire(kinesis, dynamodb)


class Consumer:
    """One application's lease manager and worker, as Lambda's entry points compose them."""

    def __init__(self, aws: EmbeddedAws, wire: Wire, name: str) -> None:
        self._wire = wire
        self._settings = Settings(
            application=name,
            stream=name,
            window_margin=timedelta(seconds=1),
            quiet_visit_interval=timedelta(0),
        )
        """Settings that send a worker for each lease and tick."""
        self._kinesis = [_client(aws, "kinesis", wire.kinesis.url) for _ in range(2)]
        self._dynamodb = [_client(aws, "dynamodb", wire.dynamodb.url) for _ in range(2)]

    def tick(self) -> Calls:
        """A tick that finds its leases existing and free."""
        self._items()
        before = self._wire.counts()
        self._items()
        return dict(self._wire.counts() - before)

    def continuous(self) -> tuple[Calls, Calls]:
        """Per lease: the fixed cost of a window, and the cost of each of its seconds."""
        short, long = (self.window(Mode.CONTINUOUS, length) for length in (SHORT, LONG))
        seconds = (LONG - SHORT).total_seconds()
        each_second = {name: (number - short[name]) / seconds for name, number in long.items()}
        once = {name: short[name] - each_second[name] * SHORT.total_seconds() for name in long}
        return once, each_second

    def window(self, mode: Mode, length: timedelta) -> Calls:
        """Per lease: a window that begins with the acquire and ends with the release, the last of its execution."""
        items = [replace(item, windows_left=1) for item in self._items()]
        settings, clock = replace(self._settings, mode=mode), SystemClock()
        worker = LeaseWorker(
            memory_ports(self._stream(), self._table(), clock=clock), HandlerFunctions(lambda _: None), settings
        )
        before = self._wire.counts()
        for item in items:
            worker.run_window(item, "invocation", clock.steady() + length)
        return {name: number / LEASES for name, number in (self._wire.counts() - before).items()}

    def _items(self) -> Sequence[WorkerItem]:
        """A tick's items, at a time when none of its leases counts as dispatched."""
        time.sleep(WORKER_STARTS_WITHIN.total_seconds())
        sightings = DynamoDbSightingStore(lambda: self._dynamodb[1], self._settings.sightings_table)
        ports = memory_ports(self._stream(), self._table(), sightings=sightings)
        manager = LeaseManager(ports, MemoryDispatcher(), self._settings)
        items = manager.tick().dispatched
        if len(items) != 1 or len(items[0].claims) != LEASES:
            raise ValueError(f"{LEASES} leases should be free, and go to one worker: {items}")
        return items

    def _table(self) -> DynamoDbLeaseTable:
        return DynamoDbLeaseTable(self._dynamodb[0], self._settings.lease_table)

    def _stream(self) -> KinesisStream:
        return KinesisStream(self._kinesis[0], self._kinesis[1], self._settings)


@contextmanager
def _consumer(aws: EmbeddedAws, wire: Wire, name: str, *, is_fed: bool) -> Iterator[Consumer]:
    kinesis, dynamodb = aws.client("kinesis"), aws.client("dynamodb")
    kinesis.create_stream(StreamName=name, ShardCount=LEASES)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    for table, key in ((name, "leaseKey"), (f"{name}-sightings", "chunk")):
        dynamodb.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    with ExitStack() as stack:
        if is_fed:
            stack.enter_context(_fed(kinesis, name))
        yield Consumer(aws, wire, name)


@contextmanager
def _fed(kinesis: Any, stream: str) -> Iterator[None]:
    """Puts a record a second into each shard, by its hash key range."""
    shards = kinesis.list_shards(StreamName=stream)["Shards"]
    records = [
        {
            "Data": b"x" * 100,
            "PartitionKey": "key",
            "ExplicitHashKey": shard["HashKeyRange"]["StartingHashKey"],
        }
        for shard in shards
    ]
    over = threading.Event()

    def feed() -> None:
        while not over.wait(1):
            kinesis.put_records(StreamName=stream, Records=records)

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _client(aws: EmbeddedAws, service: str, url: str) -> Any:
    create: Any = boto3.client  # its stubs accept literal names only
    return create(
        service,
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=aws.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws.environment["AWS_SECRET_ACCESS_KEY"],
    )
