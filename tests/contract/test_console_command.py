"""`sublet console` as a user starts it, on an AWS with a stream and an application."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import boto3
import httpx
import pytest
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table

pytestmark = pytest.mark.emulator

SHARD = "shardId-000000000000"


@pytest.fixture
def aws(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Its environment variables, for this process and for a command."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    return {"PATH": os.environ["PATH"], **embedded_aws.environment}


def application_of_java() -> tuple[str, str]:
    """A stream with one record, and a lease table with nothing beside it."""
    stream, application = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "billing"))
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    kinesis.put_record(StreamName=stream, Data=b"first order", PartitionKey="a")
    create_table(dynamodb, application, "leaseKey")
    row = encode_row(Lease(SHARD, TRIM_HORIZON, 7, "java-worker"))
    dynamodb.put_item(TableName=application, Item=row)
    return application, stream


@contextmanager
def running(aws: dict[str, str], *arguments: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A browser that has opened the printed link."""
    command = [sys.executable, "-m", "sublet", "console", *arguments, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, env=aws, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127.0.0.1:\d+/open\?link=\S+", process.stdout.readline())
            assert found is not None, process.communicate()
            with httpx.Client(follow_redirects=True, timeout=60) as client:
                opened = client.get(found[0])
                client.base_url = opened.url.join("/")
                yield client, process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def test_console_shows_and_plans_for_a_java_application_until_ctrl_c(
    aws: dict[str, str],
) -> None:
    application, stream = application_of_java()
    with running(aws, f"{application}={stream}") as (client, process):
        page = client.get(f"/a/{application}").text
        assert "java-worker" in page
        assert "first order" in client.get(f"/a/{application}/records?shard={SHARD}").text
        assert "has no control" in client.get(f"/a/{application}/control").text
        key = re.search(r'name="form_key" value="([^"]+)"', page)
        assert key is not None
        plan = client.post(
            f"/a/{application}/positions/seek",
            data={"form_key": key[1], "to": "earliest"},
            headers={"Origin": str(client.base_url).rstrip("/")},
        )
        assert (
            f"sublet seek earliest --application {application} --stream {stream}" in unescape(client.get(plan.url).text)
            or "Planning" in plan.text
        )
    assert process.returncode == 0


def test_a_name_that_is_no_application_is_a_page_that_says_so(aws: dict[str, str]) -> None:
    with running(aws, "nothing-there") as (client, _):
        assert "there is no lease table nothing-there" in client.get("/a/nothing-there").text.lower()


@contextmanager
def behind_a_proxy(aws: dict[str, str], folder: Path, application: str) -> Iterator[httpx.Client]:
    """A console that believes this machine's requests with the secret, and sends none of them itself."""
    secret = "a-secret-of-more-than-twenty-characters"
    (folder / "secret").write_text(secret)
    words = [application, "--port", "0", "--no-browser", "--trust-header", "X-Forwarded-Email", "--allow-changes"]
    words += ["--proxy-secret-file", str(folder / "secret"), "--may-move", "ada@example.com"]
    command = [sys.executable, "-m", "sublet", "console", *words]
    with subprocess.Popen(command, env=aws, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"answers the proxy at (http://127.0.0.1:\d+)\n", process.stdout.readline())
            assert found is not None, process.communicate()
            own = {"X-Sublet-Proxy-Secret": secret, "X-Forwarded-Email": "ada@example.com", "Origin": found[1]}
            with httpx.Client(base_url=found[1], headers=own, timeout=60) as client:
                yield client
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def test_changes_of_a_named_person_are_shown_after_a_restart(aws: dict[str, str], tmp_path: Path) -> None:
    application, stream = application_of_java()
    create_table(boto3.client("dynamodb"), f"{application}-sightings", "chunk")
    with behind_a_proxy(aws, tmp_path, f"{application}={stream}") as client:
        spoofed = httpx.get(client.base_url.join(f"/a/{application}"), headers={"X-Forwarded-Email": "ada@example.com"})
        assert spoofed.status_code == 403
        key = re.search(r'name="form_key" value="([^"]+)"', client.get(f"/a/{application}/control").text)
        assert key is not None
        kept = client.post(f"/a/{application}/positions/snapshot", data={"form_key": key[1], "name": "mine"})
        assert kept.status_code == 303, kept.text
    with behind_a_proxy(aws, tmp_path, f"{application}={stream}") as client:
        page = unescape(client.get(f"/a/{application}/control").text)
        assert "keep snapshot mine" in page
        assert "ada@example.com through the proxy at 127.0.0.1" in page
