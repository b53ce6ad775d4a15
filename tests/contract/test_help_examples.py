"""Runs each example of a command's help as it is printed, on an AWS that has the stream and the application of the
examples: in memory or, for commands that run until Ctrl-C, on the embedded AWS.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

import boto3
import pytest
from sublet.operate.cli.main import all_commands, main
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import HashKeyRange

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table
from tests.exploring import first

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

EXAMPLES_NUMBER = "49665012345678901234567890123456789012345678901234567890"
NAMED = ("--application", "orders-audit", "--stream", "orders")


class Kind(StrEnum):
    """How an example is run."""

    HERE = "in this process, to its end"
    ENDLESS = "until its first line, then interrupted"
    CDK = "with a stand-in for the CDK's command line"
    SPARK = "until it says that Spark is not here: tests/spark runs pipelines"


def kind_of(example: str) -> Kind:
    command = next(word for word in example.split() if word != "sublet" and "=" not in word)
    serves = command == "exporter" and "--application" in example
    follows = command == "tail" and not {"-n", "--no-follow"} & set(example.split())
    if command in ("run", "console") or serves or follows or "--watch" in example:
        return Kind.ENDLESS
    return {"deploy": Kind.CDK, "synth": Kind.CDK, "pipeline": Kind.SPARK}.get(command, Kind.HERE)


def examples(kind: Kind) -> list[str]:
    return [example for example in every_example() if kind_of(example) is kind]


def every_example() -> list[str]:
    return [example for command in all_commands() for example in examples_of(command.add_arguments)]


def examples_of(add_arguments: object) -> list[str]:
    parser = ArgumentParser()
    add_arguments(parser)  # type: ignore[operator] # a Command's own
    text = (parser.epilog or "").replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line.startswith("  ") and "sublet " in line]


@pytest.fixture
def application(moto_aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The stream orders of four shards with a record each, and orders-audit, which has handled them. By shard, its
    record's sequence number.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.json").write_text('{"id": 7}\n{"id": 8}\n')
    numbers = {}
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    kinesis.create_stream(StreamName="orders", ShardCount=4)
    kinesis.create_stream(StreamName="audit-eu", ShardCount=1)
    for table in ("orders-audit", "orders-billing"):
        create_table(dynamodb, table, "leaseKey")
        create_table(dynamodb, f"{table}-sightings", "chunk")
    for shard in kinesis.list_shards(StreamName="orders")["Shards"]:
        keys = shard["HashKeyRange"]
        put = kinesis.put_record(
            StreamName="orders",
            Data=b'{"total": 7}',
            PartitionKey="customer-7",
            ExplicitHashKey=keys["StartingHashKey"],
        )
        numbers[shard["ShardId"]] = put["SequenceNumber"]
        lease = Lease(
            shard["ShardId"],
            Checkpoint(put["SequenceNumber"]),
            hash_key_range=HashKeyRange(int(keys["StartingHashKey"]), int(keys["EndingHashKey"])),
        )
        for table in ("orders-audit", "orders-billing"):
            dynamodb.put_item(TableName=table, Item=encode_row(lease))
    return numbers


@pytest.mark.parametrize("example", examples(Kind.HERE))
def test_an_example_runs_as_it_is_printed(
    example: str,
    application: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "--to-snapshot" in example or "--from-file" in example or "restore" in example or "--delete" in example:
        assert main(["snapshot", "before-release", "--application", "orders-audit"]) == 0
    if "sublet skip" in example:
        main(["seek", "earliest", "--shard", "shardId-000000000003", *NAMED, "--execute"])
    if "sublet resume" in example:
        main(["pause", "--shard", "shardId-000000000003", "--application", "orders-audit"])
    if "sublet undo" in example:
        main(["seek", "earliest", "--shard", "shardId-000000000003", *NAMED, "--execute"])
    if "--role" in example:  # moto simulates no policies: tests/contract/test_role_permissions.py
        monkeypatch.setattr("sublet.operate.aws.inspection.lacking", lambda *_: [])
    example = example.replace(EXAMPLES_NUMBER, application["shardId-000000000003"])
    if "redrive" in example:
        prepare_redrive(monkeypatch)
    if "streams remove" in example:
        prepare_streams()
    program, *arguments = shlex.split(example)
    assert program == "sublet"
    if "<" in arguments:
        *arguments, _, file = arguments
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(Path(file).read_bytes())))
    code = main(arguments)
    said = capsys.readouterr()
    if "streams remove" in example:
        assert (code, "it can be removed" in said.err) == (2, True), "not before an hour has passed"
        return
    assert code in (0, 1), said.err
    assert said.out or said.err


def prepare_redrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty queue and bucket, a folder with a skipped record, and the handler in the current folder."""
    boto3.client("sqs", region_name="eu-west-1").create_queue(QueueName="given-up")
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="given-up")
    shard = "shardId-000000000003"
    assert main(["seek", "earliest", "--shard", shard, *NAMED, "--execute"]) == 0
    assert main(["skip", shard, *NAMED, "--execute"]) == 0
    Path("orders.py").write_text(HANDLER)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.delitem(sys.modules, "orders", raising=False)


def prepare_streams() -> None:
    """A lease of the deleted stream returns, as an application that read several streams has left it."""
    stream = "123456789012:returns:1700000000"
    row = encode_row(Lease(f"{stream}:shardId-000000000000", Checkpoint("5")))
    row = {**row, "shardId": {"S": "shardId-000000000000"}, "streamName": {"S": stream}}
    boto3.client("dynamodb").put_item(TableName="orders-audit", Item=row)


HANDLER = "def handle(batch):\n    pass\n"
SPAWNED_WITHIN = 60
"""Seconds until the first line. A generous bound for failures, not a measurement."""


@pytest.mark.parametrize("example", first(4, examples(Kind.ENDLESS)))
def test_an_example_that_goes_on_says_something_and_ends_at_ctrl_c(
    example: str, endless: Mapping[str, str], tmp_path: Path
) -> None:
    """The console's page is on this machine alone, at a free port, without a browser."""
    (tmp_path / "orders.py").write_text(HANDLER)
    (tmp_path / "token.txt").write_text("a-token-of-more-than-twenty-characters\n")
    here = example.replace("--address 0.0.0.0", "--address 127.0.0.1")
    variables, arguments = split_off_variables(shlex.split(here))
    own = {"console": ["--port", "0", "--no-browser"], "exporter": ["--address", "127.0.0.1:0"]}
    more = own.get(arguments[1], [])
    command = [sys.executable, "-m", *arguments, *more]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**endless, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 -- a background job ignores it
    ) as process:
        end = Timer(SPAWNED_WITHIN, process.kill)
        end.start()
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.strip(), "it ended, or said nothing"
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            assert process.wait(SPAWNED_WITHIN) in (0, 130), first + rest
            assert "Traceback" not in first + rest
        finally:
            end.cancel()
            process.kill()


def split_off_variables(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """`NAME=text sublet ...`, as a shell takes it."""
    first = words.index("sublet")
    return dict(word.split("=", 1) for word in words[:first]), list(words[first:])


@pytest.fixture
def endless(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, str]]:
    """The environment of a command. The stream orders gets a record a second, so that `tail` has something to show."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    with suppress(kinesis.exceptions.ResourceInUseException):
        kinesis.create_stream(StreamName="orders", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
    for table in ("orders-audit", "billing-kcl"):
        with suppress(dynamodb.exceptions.ResourceInUseException):
            create_table(dynamodb, table, "leaseKey")
    with suppress(dynamodb.exceptions.ResourceInUseException):
        create_table(dynamodb, "orders-audit-sightings", "chunk")
    is_over = Event()

    def produce() -> None:
        while not is_over.wait(1):
            kinesis.put_record(StreamName="orders", Data=b"an order", PartitionKey="customer-7")

    producer = Thread(target=produce)
    producer.start()
    yield {"PATH": os.environ["PATH"], **embedded_aws.environment}
    is_over.set()
    producer.join()


CDK = """#!{python}
import json, os, shlex, subprocess, sys

of = dict(zip(sys.argv, sys.argv[1:]))
key, _, value = of["--context"].partition("=")
os.environ["CDK_CONTEXT_JSON"] = json.dumps({{key: value, "aws:cdk:disable-asset-staging": True}})
os.environ["CDK_OUTDIR"] = "out"
print("cdk", of["cdk"])
sys.exit(subprocess.run(shlex.split(of["--app"])).returncode)
"""
"""As npx: it runs the app, as the CDK's command line does, and deploys nothing."""


@pytest.mark.parametrize("example", first(1, examples(Kind.CDK)))
def test_an_example_that_deploys_makes_its_template(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    npx.write_text(CDK.format(python=sys.executable))
    npx.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npx.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "orders.py").write_text(HANDLER)
    _, *arguments = shlex.split(example)
    assert main(arguments) == 0
    assert f"cdk {arguments[0]}" in capfd.readouterr().out
    template = json.loads((tmp_path / "out" / "sublet-orders-audit.template.json").read_text())
    assert "orders-audit" in {
        made["Properties"].get("TableName") for made in template["Resources"].values() if "Properties" in made
    }


@pytest.mark.parametrize("example", examples(Kind.SPARK))
def test_an_example_that_needs_spark_says_so(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a command that is written correctly comes so far."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    _, *arguments = shlex.split(example)
    assert main(arguments) == 2
    assert "install sublet with its extra spark" in capsys.readouterr().err


def test_no_example_is_left_out() -> None:
    """Each command has one, and each of them is run by one of the tests here."""
    assert all(examples_of(command.add_arguments) for command in all_commands())
    assert sorted(example for kind in Kind for example in examples(kind)) == sorted(every_example())
    tests: Sequence[Any] = (
        test_an_example_runs_as_it_is_printed,
        test_an_example_that_goes_on_says_something_and_ends_at_ctrl_c,
        test_an_example_that_deploys_makes_its_template,
        test_an_example_that_needs_spark_says_so,
    )
    cases = [case for test in tests for mark in test.pytestmark for case in mark.args[1]]
    parametrized = {case if isinstance(case, str) else case.values[0] for case in cases}
    assert parametrized == set(every_example())
