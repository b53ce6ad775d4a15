"""LocalStack in host mode provides what the suite relies on: Lambda's time limits and crashes, loopback only, nothing
left."""

from __future__ import annotations

import http.client
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from infra.local.embedded import ROOT, EmbeddedAws
from infra.local.localstack_host import localstack

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        os.environ.get("E2E_AWS") != "localstack" or "E2E_ENDPOINT" in os.environ,
        reason="needs LocalStack in host mode: run `make e2e-localstack`",
    ),
]

HANDLER = """
    import os, sys, time
    from shared import FROM_LAYER

    def handle(event, context):
        print("a line of the log")
        if event["do"] == "die":
            os.kill(os.getpid(), 9)
        if event["do"] == "sleep":
            time.sleep(60)
        if event["do"] == "raise":
            raise LookupError("no such order")
        left = context.get_remaining_time_in_millis()
        return {"pid": os.getpid(), "left": left, "layer": FROM_LAYER, "request": context.aws_request_id}
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with localstack() as aws:
        yield aws


def test_a_web_page_of_another_origin_makes_no_function(aws: EmbeddedAws) -> None:
    """This is all the protection that LocalStack offers: it does not check signatures."""
    endpoint = urlsplit(aws.environment["AWS_ENDPOINT_URL"]).netloc
    connection = http.client.HTTPConnection(endpoint, timeout=20)
    connection.request("POST", "/2015-03-31/functions", b"{}", {"origin": "https://elsewhere.example"})
    assert connection.getresponse().status == 403
    connection.close()


@pytest.fixture(scope="module")
def invoke(aws: EmbeddedAws) -> Callable[[str], tuple[str | None, dict[str, Any]]]:
    """A function that does what its event says, with a layer. Returns the error's kind, if any, and the reply."""
    lambda_ = aws.client("lambda")
    layer = lambda_.publish_layer_version(
        LayerName="shared", Content={"ZipFile": zipped("python/shared.py", "FROM_LAYER = 'yes'")}
    )
    lambda_.create_function(
        FunctionName="obedient",
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/any",
        Handler="app.handle",
        Timeout=2,
        Code={"ZipFile": zipped("app.py", textwrap.dedent(HANDLER))},
        Layers=[layer["LayerVersionArn"]],
    )
    lambda_.get_waiter("function_active_v2").wait(FunctionName="obedient", WaiterConfig={"Delay": 1})

    def invoke(what: str) -> tuple[str | None, dict[str, Any]]:
        reply = lambda_.invoke(FunctionName="obedient", Payload=json.dumps({"do": what}).encode())
        return reply.get("FunctionError"), json.loads(reply["Payload"].read())

    return invoke


def test_a_warm_environment_is_used_again(invoke: Callable[[str], Any]) -> None:
    (_, first), (_, second) = invoke("answer"), invoke("answer")
    assert first["pid"] == second["pid"]
    assert first["request"] != second["request"]
    assert first["layer"] == "yes"
    assert 0 < first["left"] <= 2000


def test_an_exception_is_reported_by_name_and_leaves_the_environment_warm(
    invoke: Callable[[str], Any],
) -> None:
    _, before = invoke("answer")
    error, told = invoke("raise")
    assert (error, told["errorType"], told["errorMessage"]) == ("Unhandled", "LookupError", "no such order")
    assert invoke("answer")[1]["pid"] == before["pid"]


@pytest.mark.parametrize(("way", "kind"), [("die", "Runtime.ExitError"), ("sleep", "Sandbox.Timedout")])
def test_a_death_is_reported_as_lambda_does_and_the_next_invocation_starts_cold(
    invoke: Callable[[str], Any], way: str, kind: str
) -> None:
    _, before = invoke("answer")
    error, told = invoke(way)
    assert (error, told["errorType"]) == ("Unhandled", kind)
    _, after = invoke("answer")
    assert after["pid"] != before["pid"]
    assert not running({before["pid"]})


def test_handler_output_is_in_its_log_group(aws: EmbeddedAws, invoke: Callable[[str], Any]) -> None:
    invoke("answer")
    logs = aws.client("logs")

    def written() -> bool:
        try:
            events = logs.filter_log_events(logGroupName="/aws/lambda/obedient")["events"]
        except logs.exceptions.ResourceNotFoundException:
            return False
        return any(event["message"].startswith("a line of the log") for event in events)

    eventually(written, "the line is in CloudWatch Logs")


@pytest.mark.skipif(shutil.which("ss") is None, reason="asks `ss` (iproute2) who listens where")
def test_every_listener_is_on_loopback(aws: EmbeddedAws) -> None:
    aws.client("dynamodb").list_tables()
    aws.client("kinesis").list_streams()
    ours = below(aws.servers[0].process_group)
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    addresses = [line.split()[3] for line in listening.splitlines() if any(f"pid={pid}," in line for pid in ours)]
    assert len(addresses) >= 4, "the gateway, DynamoDB Local, and kinesis-local with and without TLS"
    assert all(each.startswith(("127.0.0.1:", "[::ffff:127.0.0.1]:")) for each in addresses), addresses


PROGRAM = """
import time
from infra.local.localstack_host import localstack
with localstack() as aws:
    aws.client("dynamodb").list_tables()
    aws.client("kinesis").list_streams()
    print(aws.servers[0].process_group, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("killed", ["the program", "LocalStack"])
def test_localstack_leaves_no_process_after_a_kill(killed: str) -> None:
    """LocalStack's own children are in sessions of their own, so they have to notice by themselves that it has gone."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        server = int(program.stdout.readline())
        started = below(server)
        assert len(started) >= 3, "LocalStack, DynamoDB Local, kinesis-local"
        try:
            os.kill(server if killed == "LocalStack" else program.pid, signal.SIGKILL)
            eventually(lambda: not running(started), f"{killed} is killed, all of {started} end")
        finally:
            program.kill()


def zipped(name: str, text: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, text)
    return archive.getvalue()


def below(pid: int) -> set[int]:
    """A process and all that it started, in whatever group or session."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout  # noqa: S607
    pairs = [(int(child), int(parent)) for child, parent in (line.split() for line in listing.splitlines())]
    found, generation = {pid}, {pid}
    while generation:
        generation = {child for child, parent in pairs if parent in generation} - found
        found |= generation
    return found


def running(pids: set[int]) -> set[int]:
    """Those still running, without zombies."""
    listing = subprocess.run(["ps", "-eo", "pid=,stat="], capture_output=True, text=True, check=True).stdout  # noqa: S607
    rows = [line.split() for line in listing.splitlines()]
    return {int(pid) for pid, state in rows if int(pid) in pids and not state.startswith("Z")}


def eventually(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, f"not within 20 s: {what}"
        time.sleep(0.1)
