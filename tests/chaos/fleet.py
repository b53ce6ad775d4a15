"""The stack under chaos: the deployed one, with a bad network between its functions and AWS, and a handler that
fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from math import ceil
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from sublet.settings import Reading

from infra.local.embedded import EmbeddedAws, embedded_aws
from tests.chaos.journal import Journal
from tests.chaos.network import Network, network
from tests.chaos.observer import Observer
from tests.chaos.recovery import Tick
from tests.e2e.fleet import Fleet, deployed

APPLICATION = "chaos"
FAILOVER_SECONDS = 9.0
TICK_SECONDS = 10.0
"""EventBridge's shortest schedule is a minute. Ours, beside it, lets a quarter of an hour contain many faults.

A failover time just below a tick has passed at the next one: NOTICED_WITHIN is then failover time + one tick, and a
little.
"""

NOTICED_WITHIN = TICK_SECONDS * (1 + ceil(FAILOVER_SECONDS / TICK_SECONDS))
"""Seconds until an owner that died unnoticed has lost its leases. A lease table holds no times: the first tick after
the death sees the last heartbeat, and the first one more than the failover time after that takes the lease."""

SETTINGS = {
    "mode": "continuous",
    "failover_time": f"{FAILOVER_SECONDS:g}s",
    "heartbeat_interval": f"{FAILOVER_SECONDS / 3:g}s",
    # Short, so that windows, executions and their ends are met by faults too.
    "window": "30s",
    "window_margin": "5s",
    "windows_per_execution": "6",
    "checkpoint_interval": "5s",
    "worker_count": "2",
    "leases_per_worker": "2",
    "idle_poll_interval": "200ms",
    "handler_attempts": "3",
    "handler_backoff": "100ms",
    "handler_backoff_max": "1s",
}
PUSHED: Mapping[str, str] = {"fan_out": "true", "window": "1m", "windows_per_execution": "3"}
"""Of fan-out: a window must be long enough for a subscription to pay."""

FAILURE_RATE = 0.08
"""Of the handler's calls. With three attempts, one batch in two thousand gives its lease back."""

FUNCTIONS = {"worker": "LeaseWorker", "manager": "LeaseManager"}


@dataclass
class ChaosFleet:
    """A deployed application, and its observers. `networks` are to ministack and to kinesis-local."""

    aws: EmbeddedAws
    fleet: Fleet
    networks: tuple[Network, Network]
    folder: Path
    journal: Journal
    observer: Observer
    ticks: list[Tick] = field(default_factory=list)
    failed_ticks: int = 0
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    def function(self, role: str) -> str:
        """A function's name, by `worker` or `manager`."""
        return self.fleet.outputs[FUNCTIONS[role]]

    def log_of(self, role: str) -> list[str]:
        """The log of a function's finished invocations, which is all that Lambda's service has."""
        function = self.fleet.lambda_.get_function_configuration(FunctionName=self.function(role))
        pages = self.aws.client("logs").get_paginator("filter_log_events")
        found = pages.paginate(logGroupName=function["LoggingConfig"]["LogGroup"])
        return [event["message"].rstrip() for page in found for event in page["events"]]

    def fail_handlers(self, rate: float) -> None:
        whole = self.folder / "failure-rate.new"
        whole.write_text(str(rate))
        whole.replace(self.folder / "failure-rate")  # a handler must not find it empty

    def start_tick(self) -> None:
        """Prompt the lease manager; ticks may overlap."""
        self._pool.submit(self._tick)

    def _tick(self) -> None:
        began = time.time_ns()
        with suppress(AssertionError, BotoCoreError, ClientError, ValueError):
            self.fleet.tick()
            self.ticks.append(Tick(began, time.time_ns()))
            return
        self.failed_ticks += 1

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def chaos_fleet(seed: int, folder: Path, reading: Reading = Reading.POLLING) -> Iterator[ChaosFleet]:
    """Deployed, with a good network and a handler that does not fail yet."""
    with ExitStack() as stack:
        aws = stack.enter_context(embedded_aws())
        gateway = stack.enter_context(network(aws.environment["AWS_ENDPOINT_URL"], f"{seed} gateway"))
        kinesis = stack.enter_context(network(aws.environment["AWS_ENDPOINT_URL_KINESIS"], f"{seed} kinesis"))
        endpoints = {"AWS_ENDPOINT_URL": gateway.url, "AWS_ENDPOINT_URL_KINESIS": kinesis.url}
        context = {
            "handler_code": str(Path(__file__).with_name("handlers")),
            "handler": "flaky:handle",
            "handler_environment": json.dumps({"CHAOS_FOLDER": str(folder), "CHAOS_SEED": str(seed), **endpoints}),
            **SETTINGS,
            **(PUSHED if reading is Reading.FAN_OUT else {}),
        }
        (folder / "failure-rate").write_text("0")
        with redirect_stdout(StringIO()):  # the CDK's progress
            fleet = stack.enter_context(deployed(aws, APPLICATION, folder, **context))
        _send_through(fleet.lambda_, fleet.outputs["LeaseManager"], endpoints)
        observer = Observer(aws.client("dynamodb"), fleet.outputs["LeaseTable"])
        chaos = ChaosFleet(aws, fleet, (gateway, kinesis), folder, Journal(folder), observer)
        stack.callback(chaos.close)
        yield chaos


def _send_through(lambda_: Any, function: str, endpoints: dict[str, str]) -> None:
    """The stack sets variables for the handler's function only."""
    variables = lambda_.get_function_configuration(FunctionName=function)["Environment"]["Variables"]
    lambda_.update_function_configuration(FunctionName=function, Environment={"Variables": variables | endpoints})
