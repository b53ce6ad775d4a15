"""Each example of a command's help, run as it is printed, on an AWS in memory with the stream and the application of the
examples.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from collections.abc import Mapping
from io import BytesIO, TextIOWrapper
from pathlib import Path

import boto3
import pytest
from sublet.cli.main import all_commands, main
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import HashKeyRange

from tests.contract.dynamodb_tables import create_table

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

HAVE_THEIR_OWN = {"run", "pipeline", "deploy", "synth", "redrive", "console", "applications", "streams"}
"""Commands whose examples need more than a stream and an application: their own tests run them."""
ENDLESS = ("sublet tail --stream orders", "sublet tail --stream orders --key customer-7 --text")
EXAMPLES_NUMBER = "49665012345678901234567890123456789012345678901234567890"
NAMED = ("--application", "orders-audit", "--stream", "orders")


def examples() -> list[str]:
    return [
        example
        for command in all_commands()
        if command.name not in HAVE_THEIR_OWN
        for example in examples_of(command.add_arguments)
        if "--watch" not in example and example not in ENDLESS
    ]


def examples_of(add_arguments: object) -> list[str]:
    parser = ArgumentParser()
    add_arguments(parser)  # type: ignore[operator] # a Command's own
    text = (parser.epilog or "").replace("\\\n", " ")
    return [
        " ".join(line.split()) for line in text.splitlines() if line.startswith("  ") and "sublet " in line
    ]


@pytest.fixture
def application(moto_aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The stream orders of four shards with a record each, and orders-audit, which has handled them. By shard, its record's
    sequence number.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.json").write_text('{"id": 7}\n{"id": 8}\n')
    numbers = {}
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    kinesis.create_stream(StreamName="orders", ShardCount=4)
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


@pytest.mark.parametrize("example", examples())
def test_an_example_runs_as_it_is_printed(
    example: str,
    application: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if (
        "--to-snapshot" in example
        or "--from-file" in example
        or "restore" in example
        or "--delete" in example
    ):
        assert main(["snapshot", "before-release", "--application", "orders-audit"]) == 0
    if "sublet skip" in example:
        main(["seek", "earliest", "--shard", "shardId-000000000003", *NAMED, "--execute"])
    if "sublet undo" in example:
        main(["seek", "earliest", "--shard", "shardId-000000000003", *NAMED, "--execute"])
    if "--role" in example:  # moto simulates no policies: tests/contract/test_role_permissions.py
        monkeypatch.setattr("sublet.aws.inspection.lacking", lambda *_: [])
    example = example.replace(EXAMPLES_NUMBER, application["shardId-000000000003"])
    program, *arguments = shlex.split(example)
    assert program == "sublet"
    if "<" in arguments:
        *arguments, _, file = arguments
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(Path(file).read_bytes())))
    code = main(arguments)
    said = capsys.readouterr()
    assert code in (0, 1), said.err
    assert said.out or said.err
