"""Real parts for the recipes: the embedded AWS with a stream of its own for each test, and PostgreSQL."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from infra.local import EmbeddedAws
from tests.recipes.postgres_server import postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as conninfo:
        yield conninfo


@pytest.fixture
def aws(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> EmbeddedAws:
    """The embedded AWS, which this process' environment leads to."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    return embedded_aws


@pytest.fixture
def stream(aws: EmbeddedAws) -> str:
    """The name of a new stream of two shards, and of the application that reads it."""
    name = f"recipe-{uuid.uuid4().hex[:8]}"
    create_stream(aws, name)
    return name


def create_stream(aws: EmbeddedAws, name: str, shards: int = 2) -> None:
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=shards)
    until = time.monotonic() + 30
    while kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
        assert time.monotonic() < until
        time.sleep(0.1)
