"""The first program of docs/consumer-api.md, as it stands, in an application that does not exist yet, on the embedded
AWS."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from infra.local import EmbeddedAws
from tests.docs.documents import blocks
from tests.e2e.deliveries import wait_until

DOCUMENT = Path(__file__).parents[2] / "docs" / "consumer-api.md"
PATIENCE = 60

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


def test_first_program_prints_a_record_of_a_new_application(
    embedded_aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    stream = f"first-program-{os.getpid()}"
    kinesis = boto3.client("kinesis")
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    kinesis.put_record(StreamName=stream, Data=b"waits", PartitionKey="customer-1")
    program = next(block.text for block in blocks(DOCUMENT) if "import Consumer" in block.text)
    assert '"orders-audit", "orders"' in program
    (tmp_path / "audit.py").write_text(program.replace('"orders-audit", "orders"', f'"{stream}-audit", "{stream}"'))
    output = tmp_path / "output"
    with (
        output.open("wb") as to,
        subprocess.Popen([sys.executable, "-u", "audit.py"], cwd=tmp_path, stdout=to, stderr=subprocess.STDOUT) as run,
    ):
        try:
            wait_until(lambda: "customer-1 b'waits'" in output.read_text(), PATIENCE, output.read_text)
            run.send_signal(signal.SIGTERM)
            assert run.wait(PATIENCE) in (0, -signal.SIGTERM), output.read_text()
        finally:
            run.kill()
    (lease,) = boto3.client("dynamodb").scan(TableName=f"{stream}-audit")["Items"]
    assert "leaseOwner" not in lease
    assert lease["checkpoint"]["S"].isdecimal()
