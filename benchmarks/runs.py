"""Starts servers, and consumers as separate processes against them, with an emulated DynamoDB for their leases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import boto3

from benchmarks import peers, replay_server
from benchmarks.peers import ROOT
from infra.local.embedded import HOST, EmbeddedAws, embedded_aws, free_ports
from infra.local.server import running

TIMEOUT = 300.0
"""Seconds after which a consumer counts as not running here."""

_numbers = count(1)

ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "LANG": "C.UTF-8",
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "layers/sublet/python")]),
}
"""What each server and consumer gets."""


class Consumer(NamedTuple):
    name: str
    module: str
    is_peer: bool
    """Runs in the peers' environment."""
    environment: Mapping[str, str] = {}


BARE = Consumer("bare boto3 loop", "bare", is_peer=False)
SUBLET = Consumer("sublet", "sublet_run", is_peer=False)
KCL_RS = Consumer("kcl-rs (Rust)", "kcl_rust", is_peer=True)
SUBLET_UNFILTERED = Consumer(
    "sublet, filter off", "sublet_run", is_peer=False, environment={"SUBLET_HASH_RANGE_FILTER": "off"}
)
SUBLET_ON_A_LOOP = Consumer("sublet, async for", "sublet_pulled", is_peer=False)
SUBLET_PULLED = Consumer("sublet, for", "sublet_pulled", is_peer=False, environment={"PULLED": "plain"})
ASYNC_KINESIS = Consumer("async-kinesis", "async_kinesis", is_peer=True)
ELECTREONWIRELESS = Consumer("electreonwireless", "electreonwireless", is_peer=True)


class Run(NamedTuple):
    cpu_seconds: float
    seconds: float
    """The seconds from the start of the process to its last record."""
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class Bench:
    """A replay server and an embedded AWS."""

    aws: EmbeddedAws
    environment: Mapping[str, str]

    def run(self, consumer: Consumer, stream: str, expected: int) -> Run | None:
        """One process that reads the whole stream; None if it does not finish."""
        started = time.time()
        with self.started(consumer, stream, expected) as process:
            try:
                output, _ = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                return None
        if process.returncode != 0 or not output:
            return None
        found = json.loads(output.splitlines()[-1])
        return Run(found["cpu_seconds"], found["last_at"] - started, found["peak_bytes"])

    @contextmanager
    def started(
        self, consumer: Consumer, stream: str, expected: int, **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        """A consumer with an application of its own, ended with the block."""
        sublet = not consumer.is_peer
        application = self.new_application() if sublet else _unused_name()
        process = subprocess.Popen(
            [_python(consumer), "-m", f"benchmarks.consumers.{consumer.module}", stream, application, str(expected)],
            env={**self.environment, **consumer.environment, **environment},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def client(self, service: str, url: str) -> Any:
        create: Any = boto3.client  # its stubs accept literal names only
        return create(
            service,
            endpoint_url=url,
            region_name=self.environment["AWS_REGION"],
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
        )

    def new_application(self) -> str:
        """A new name, with its tables. The peers create their own."""
        application = _unused_name()
        self.create_table(application, "leaseKey")
        self.create_table(f"{application}-sightings", "chunk")
        return application

    def create_table(self, name: str, key: str) -> None:
        self.aws.client("dynamodb").create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )


def _unused_name() -> str:
    return f"bench-{next(_numbers)}"


def _python(consumer: Consumer) -> str:
    return str(peers.PYTHON) if consumer.is_peer else sys.executable


@contextmanager
def bench(server: str = replay_server.__name__, *arguments: str) -> Iterator[Bench]:
    """Loopback servers, ended with the block. `server`: the module that serves Kinesis."""
    with embedded_aws() as aws, served(server, *arguments) as url:
        yield Bench(aws, {**ENVIRONMENT, **aws.environment, "AWS_ENDPOINT_URL_KINESIS": url})


@contextmanager
def served(module: str, *arguments: str) -> Iterator[str]:
    """The URL of `python -m <module> PORT <arguments>`, ended with the block."""
    [port] = free_ports(1)
    url = f"http://{HOST}:{port}"
    with running(module, [sys.executable, "-m", module, str(port), *arguments], ENVIRONMENT, url):
        yield url
