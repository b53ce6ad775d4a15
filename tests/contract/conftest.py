"""The backends of the contract suites: memory, moto (in process) and the embedded AWS."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from moto import mock_aws

from tests.contract.scripted_service import ScriptedService, scripted_service
from tests.doubles.moto_sqs import hide_for_a_time

LOOPBACK_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture
def moto_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty AWS in this process: boto3's requests never leave it."""
    for name, value in LOOPBACK_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    hide_for_a_time(monkeypatch)
    with mock_aws():
        yield


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A loopback port without a listener."""
    for name, value in LOOPBACK_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.fixture
def make_service() -> type[ScriptedService]:
    """For a module whose service computes its own answers."""
    return ScriptedService


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, make_service: type[ScriptedService]) -> Iterator[ScriptedService]:
    """The only AWS there is: it gives scripted answers."""
    with scripted_service(make_service()) as service:
        for name, value in LOOPBACK_CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
        # botocore repeats a refused call after up to 20 s, by chance: the script does not care.
        monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
        yield service
