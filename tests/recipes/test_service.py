"""The FastAPI service as a process of uvicorn on the embedded AWS: ready, consuming, and ended by SIGTERM."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
import sublet
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.lease_table import DynamoDbLeaseTable

from infra.local import EmbeddedAws
from infra.local.embedded import HOST, free_ports
from tests.docs.documents import ROOT
from tests.e2e.processes import running
from tests.exploring import explores
from tests.recipes.recipe_runs import PATIENCE, put, wait_until

pytestmark = [pytest.mark.emulator, explores, pytest.mark.timeout(300)]

SERVICE = """
from sublet.aio import Consumer
from service import app_of

def create():
    return app_of(Consumer("{name}", "{name}"))
"""


def test_service_is_ready_and_checkpoints_and_releases_at_its_end(
    aws: EmbeddedAws, stream: str, tmp_path: Path
) -> None:
    sublet.Consumer(stream, stream).create()
    put(aws, stream, [(f"key-{number}", b"%d" % number) for number in range(10)])
    (tmp_path / "of_test.py").write_text(SERVICE.format(name=stream))
    (port,) = free_ports(1)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT / "examples" / "pulling"))),
        **aws.environment,
    }
    log = tmp_path / "log"
    command = ("-m", "uvicorn", "--factory", "of_test:create", "--host", HOST, "--port", str(port))
    with (
        running(environment, tmp_path, *command) as process,
        httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False) as client,
    ):

        def status(path: str) -> int:
            try:
                return client.get(path).status_code
            except httpx.TransportError:
                assert process.poll() is None, log.read_text()
                return 0

        wait_until(lambda: status("/ready") == 200, log.read_text)
        wait_until(lambda: all(status(f"/orders/key-{number}") == 200 for number in range(10)), log.read_text)
        process.terminate()
        process.wait(PATIENCE)
    assert "Application shutdown complete" in log.read_text()
    leases = DynamoDbLeaseTable(dynamodb_client(), stream).scan().leases
    assert {lease.lease_owner for lease in leases} == {None}
    with sublet.Consumer(stream, stream).fetch(10, expires=3) as records:
        assert list(records) == [], "each is checkpointed"
