"""Counts DynamoDB writes at the wire while no record arrives: per lease and minute, over a stream of four idle shards.

`continuous` is `sublet run`, with the peers in their defaults. `catch_up` is a tick of the lease manager and the
window of the lease worker that it starts, four times: the writes in each, and between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, NamedTuple

from sublet import Mode, Settings
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.window import WindowReport
from sublet.engine.manager.tick import LeaseManager
from sublet.engine.worker.worker import LeaseWorker
from sublet.handlers.batch import HandlerFunctions
from sublet.testing.memory import MemoryDispatcher, memory_ports

from benchmarks import peers
from benchmarks.counting_proxy import CountingProxy, counting_proxy
from benchmarks.replay_server import IDLE, SHARDS
from benchmarks.runs import ELECTREONWIRELESS, KCL_RS, SUBLET, Bench, bench

SETTLED_AFTER = 75.0
"""Seconds until each has its leases: kcl-rs needs up to a minute."""
COUNTED = 120.0
WINDOWS = 4
PAUSE = 5.0
"""Seconds between a window's end and the next tick."""
GOAL_CONTINUOUS = 6.0


class CatchUp(NamedTuple):
    """Writes per lease: in a tick that finds nothing new, in a window, and between windows."""

    tick: float
    window: float
    between: float


class Writes(NamedTuple):
    continuous: dict[str, float]
    """Per lease and minute, by consumer."""
    catch_up: CatchUp


def measure() -> Writes:
    with bench() as servers:
        return Writes(_continuous(servers), _catch_up(servers))


def report(writes: Writes) -> bool:
    """Print both; True if the goals are met."""
    print("idle writes: DynamoDB writes per lease and minute, nothing arriving")
    for name, number in writes.continuous.items():
        print(f"  {name:<24}{number:>6.1f}")
    tick, window, between = writes.catch_up
    print(f"  sublet, catch_up: {between:.1f} between windows; {window:.1f} in a window, {tick:.1f} in a tick")
    own = writes.continuous[SUBLET.name]
    met = (
        own <= GOAL_CONTINUOUS + 0.25,
        between == 0,
    )  # a quarter: a heartbeat at each end of the measurement
    print(f"goal: continuous, at most {GOAL_CONTINUOUS:g}: {'met' if met[0] else 'MISSED'}")
    print(f"goal: catch_up, none between windows: {'met' if met[1] else 'MISSED'}")
    return all(met)


def _continuous(servers: Bench) -> dict[str, float]:
    """All at once: they only wait, each at a proxy of its own."""
    consumers = (SUBLET, KCL_RS, ELECTREONWIRELESS) if peers.PYTHON.exists() else (SUBLET,)
    with ExitStack() as stack:
        proxies: dict[str, CountingProxy] = {}
        for consumer in consumers:
            proxy = proxies[consumer.name] = stack.enter_context(
                counting_proxy(servers.aws.environment["AWS_ENDPOINT_URL"])
            )
            stack.enter_context(servers.started(consumer, IDLE, 0, AWS_ENDPOINT_URL_DYNAMODB=proxy.url))
        time.sleep(SETTLED_AFTER)
        before = {name: proxy.writes() for name, proxy in proxies.items()}
        time.sleep(COUNTED)
        return {name: (proxy.writes() - before[name]) / SHARDS / (COUNTED / 60) for name, proxy in proxies.items()}


def _catch_up(servers: Bench) -> CatchUp:
    """Catches up with Lambda's adapters, in this process. The first tick creates the leases, and does not count."""
    in_ticks = in_windows = between = resting = 0
    with counting_proxy(servers.aws.environment["AWS_ENDPOINT_URL"]) as proxy:
        tick, window = _functions(servers, proxy.url)
        for number in range(WINDOWS + 1):
            items = tick()
            ticked = proxy.writes()
            for item in items:
                window(item)
            left = proxy.writes()
            time.sleep(PAUSE)
            if number > 0:
                in_ticks += ticked - resting
                in_windows += left - ticked
                between += proxy.writes() - left
            resting = proxy.writes()
    each = WINDOWS * SHARDS
    return CatchUp(in_ticks / each, in_windows / each, between / each)


def _functions(
    servers: Bench, dynamodb_url: str
) -> tuple[Callable[[], Sequence[WorkerItem]], Callable[[WorkerItem], WindowReport]]:
    """A tick, which returns what it would have dispatched, and a window over one such item."""
    application = servers.new_application()
    settings = Settings(application=application, stream=IDLE, mode=Mode.CATCH_UP)

    def dynamodb() -> Any:
        return servers.client("dynamodb", dynamodb_url)

    def kinesis() -> Any:
        return servers.client("kinesis", servers.environment["AWS_ENDPOINT_URL_KINESIS"])

    table = DynamoDbLeaseTable(dynamodb(), settings.lease_table)
    stream = KinesisStream(kinesis(), kinesis(), settings)
    ports = memory_ports(stream, table, sightings=DynamoDbSightingStore(dynamodb, settings.sightings_table))
    manager = LeaseManager(ports, MemoryDispatcher(), settings)
    worker = LeaseWorker(ports, HandlerFunctions(lambda _: None), settings)
    return (
        lambda: manager.tick().dispatched,
        lambda item: worker.run_window(item, "invocation", ports.clock.steady() + timedelta(minutes=1)),
    )
