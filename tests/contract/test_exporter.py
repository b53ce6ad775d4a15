"""`sublet exporter` beside a Java KCL's table on the embedded AWS: its page, its address, and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import boto3
import pytest
from prometheus_client.parser import text_string_to_metric_families

from infra.local import EmbeddedAws

ROOT = Path(__file__).parents[2]
PATIENCE = 60
ROW = {
    "leaseKey": {"S": "shardId-000000000000"},
    "leaseOwner": {"S": "java-1"},
    "leaseCounter": {"N": "41"},
    "checkpoint": {"S": "TRIM_HORIZON"},
    "checkpointSubSequenceNumber": {"N": "0"},
    "ownerSwitchesSinceCheckpoint": {"N": "0"},
}
"""As KCL 1 to 3 write it: without a word of how far it is behind."""

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


@pytest.fixture
def application(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    name = f"exported-{os.getpid()}"
    kinesis, tables = boto3.client("kinesis"), boto3.client("dynamodb")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    kinesis.put_record(StreamName=name, Data=b"waits", PartitionKey="key")
    tables.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    tables.put_item(TableName=name, Item=ROW)
    return name


def test_lag_of_a_java_kcl_is_shown_at_loopback_until_sigterm(application: str) -> None:
    command = [
        "exporter",
        "--application",
        f"{application}={application}",
        "--application",
        f"{application}-is-not=there",
        "--address",
        "127.0.0.1:0",
        "--every",
        "10s",
    ]
    running = subprocess.Popen(
        [sys.executable, "-m", "sublet", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "layers/sublet/python")},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stderr is not None
        address = None
        ends = time.monotonic() + PATIENCE
        said: list[str] = []
        while address is None and time.monotonic() < ends and (line := running.stderr.readline()):
            said.append(line)
            address = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line)
        assert address is not None, said
        with urllib.request.urlopen(f"http://127.0.0.1:{address.group(1)}/metrics") as reply:
            families = list(text_string_to_metric_families(reply.read().decode()))
            samples = [each for one in families for each in one.samples]
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
    finally:
        running.kill()
        running.wait()
        assert running.stderr is not None
        running.stderr.close()
    other = {
        each.labels.get("operation", ""): each.value for each in samples if "-is-not" in each.labels["application"]
    }
    assert other["Scan"] >= 1, "what a failed search for it costs is counted too"
    shown = {
        (each.name, each.labels.get("operation", "")): each.value
        for each in samples
        if each.labels["application"] == application
    }
    assert shown["sublet_exporter_up", ""] == 1, said
    assert shown["sublet_lag_seconds", ""] > 0
    assert shown["sublet_application_lag_seconds", ""] == pytest.approx(shown["sublet_lag_seconds", ""])
    assert shown["sublet_leases", ""] == 1
    assert shown["sublet_exporter_calls_total", "GetRecords"] >= 1
