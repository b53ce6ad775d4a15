"""From a poison record to its redrive: the engine, a real destination, and the command."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from sublet.aws.set_aside.failure_destinations import failure_destination, set_aside_store
from sublet.handlers.load import load_handler
from sublet.operate.cli.main import main
from sublet.ports import StoreCounts
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.write_clauses import SEEK_LEAP
from sublet.settings import HandlerContract

from tests.contract.dynamodb_tables import create_table
from tests.contract.test_failure_destination import batch
from tests.doubles.engine_world import NO_WAITING, EngineWorld

HANDLER = """
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

processor, seen, bad = BatchProcessor(event_type=EventType.KinesisDataStreams), [], {b"poison"}


def one(record):
    data = record.kinesis.data_as_bytes()
    if data in bad:
        raise ValueError("cannot read it")
    seen.append(data)


def handler(event, context):
    return process_partial_response(event=event, record_handler=one, processor=processor, context=context)
"""

pytestmark = pytest.mark.emulator


def make(kind: str) -> str:
    if kind == "s3":
        boto3.client("s3").create_bucket(Bucket="given-up")
        return "arn:aws:s3:::given-up/sublet"
    boto3.client("sqs").create_queue(QueueName="given-up")
    return "arn:aws:sqs:us-east-1:123456789012:given-up"


@pytest.mark.parametrize("kind", ["sqs", "s3"])
def test_a_powertools_handler_with_a_poison_record_and_its_redrive(
    kind: str,
    moto_aws: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arn, module = make(kind), f"poisoned_{kind}"
    (tmp_path / f"{module}.py").write_text(HANDLER)
    monkeypatch.syspath_prepend(tmp_path)
    settings = replace(
        NO_WAITING,
        handler=f"{module}:handler",
        handler_contract=HandlerContract.LAMBDA_EVENT,
        stream_arn="arn:aws:kinesis:us-east-1:123456789012:stream/events",
        batch_size=4,
        maximum_retry_attempts=1,
        on_failure=arn,
    )
    world = EngineWorld(settings)
    world.put(*(f"r{n}" for n in range(3)), "poison", *(f"r{n}" for n in range(4, 10)))
    real: Any = load_handler(settings.handler, settings)
    world.handler.script = real.handle
    world.destination = failure_destination(arn)  # type: ignore[assignment]
    world.window()
    handler = sys.modules[module]
    assert handler.seen == [f"r{n}".encode() for n in (0, 1, 2, 4, 5, 6, 7, 8, 9)]

    command = [
        "redrive",
        "--from",
        arn,
        "--application",
        "orders",
        "--stream",
        "events",
        "--handler",
        settings.handler,
        "--handler-contract",
        "lambda_event",
    ]
    assert main([*command, "--dry-run"]) == 0
    assert "1 record in 1 batch would be handed over" in capsys.readouterr().out
    assert main(command) == 1, "it is still poison"
    assert "1 batch failed again and stays" in capsys.readouterr().out
    handler.bad.clear()
    assert main(command) == 0
    assert handler.seen[-1] == b"poison"
    assert main(command) == 0
    assert "0 records in 0 batches" in capsys.readouterr().out


def test_redrive_from_a_topic_is_refused(moto_aws: None, capsys: pytest.CaptureFixture[str]) -> None:
    arn = "arn:aws:sns:us-east-1:123456789012:given-up"
    code = main(["redrive", "--from", arn, "--application", "orders", "--stream", "events", "--handler", "a:b"])
    assert code == 2
    assert "a topic stores nothing to redrive" in capsys.readouterr().err


def test_a_redrive_is_from_somewhere(moto_aws: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["redrive", "--application", "orders", "--stream", "events", "--handler", "a:b"]) == 2
    assert "give --from" in capsys.readouterr().err


def test_redrive_names_the_option_whose_value_is_not_an_arn(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["redrive", "--from", "notanarn", "--application", "orders", "--stream", "events"])
    said = capsys.readouterr().err
    assert "argument --from: 'notanarn' is not the ARN of an SQS queue" in said
    assert "on_failure" not in said


def test_a_record_that_an_operator_skips_is_redriven_from_its_folder(
    moto_aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "skipping.py").write_text("seen = []\ndef handle(batch): seen.extend(r.data for r in batch.records)")
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    kinesis.create_stream(StreamName="events", ShardCount=1)
    for table, key in (("orders", "leaseKey"), ("orders-sightings", "chunk")):
        create_table(dynamodb, table, key)
    for data in (b"poison", b"next"):
        kinesis.put_record(StreamName="events", Data=data, PartitionKey="a")
    shard = "shardId-000000000000"
    dynamodb.put_item(TableName="orders", Item=encode_row(Lease(shard, TRIM_HORIZON, 7, "host:java-1")))
    of = ["--application", "orders", "--stream", "events"]

    def row() -> dict[str, Any]:
        return dict(dynamodb.get_item(TableName="orders", Key={"leaseKey": {"S": shard}})["Item"])

    assert main(["skip", shard, *of]) == 0
    shown = capsys.readouterr()
    assert "poison" in shown.out
    assert "Nothing has been skipped. To carry out this plan, add --execute." in shown.err
    assert row()["checkpoint"] == {"S": "TRIM_HORIZON"}
    assert not (tmp_path / "orders-skipped").exists()
    assert main(["skip", shard, *of, "--json", "--execute"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["kept_in"] == "orders-skipped"
    assert row()["checkpoint"]["S"] == plan["records"][0]["position"].partition("/")[0]
    assert row()["leaseCounter"] == {"N": str(7 + SEEK_LEAP)}
    assert "leaseOwner" not in row(), "Java's worker has to stop"

    command = ["redrive", "--from", "orders-skipped", *of, "--handler", "skipping:handle"]
    assert main(command) == 0
    assert sys.modules["skipping"].seen == [b"poison"]
    assert main(command) == 0
    assert "0 records in 0 batches" in capsys.readouterr().out
    assert main(["undo", *of, "--execute"]) == 0
    assert row()["checkpoint"] == {"S": "TRIM_HORIZON"}


def test_messages_that_an_earlier_run_hides_are_reported(
    moto_aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arn = make("sqs")
    (tmp_path / "hiding.py").write_text("def handle(batch): ...")
    monkeypatch.syspath_prepend(tmp_path)
    queue: Any = boto3.client("sqs")
    url = queue.get_queue_url(QueueName="given-up")["QueueUrl"]
    queue.send_message(QueueUrl=url, MessageBody="of somebody else")
    store = set_aside_store(arn)
    assert store is not None
    assert (store.counted(), len(list(store.kept("orders"))), store.counted()) == (
        StoreCounts(1),
        1,
        StoreCounts(0, hidden=1),
    )
    main(
        [
            "redrive",
            "--from",
            arn,
            "--application",
            "orders",
            "--stream",
            "events",
            "--handler",
            "hiding:handle",
        ]
    )
    assert "0 records in 0 batches handled and removed; about 1 more are hidden" in capsys.readouterr().out


def test_looking_at_what_is_set_aside_needs_no_handler(moto_aws: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The person on call may not have the consumer's code."""
    arn = make("sqs")
    failure_destination(arn).put(batch(100))
    for look in ("--dry-run", "--show"):
        assert main(["redrive", "--from", arn, "--application", "orders", look]) == 0
        assert "2 records in 1 batch would be handed over" in capsys.readouterr().out
    assert main(["redrive", "--from", arn, "--application", "orders", "--stream", "events"]) == 2
    assert "setting handler is required" in capsys.readouterr().err
