"""How many modules somebody reads to follow `sublet seek` from argv to the write that moves a lease."""

from __future__ import annotations

import gc
import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Self

import boto3
import botocore.client
import pytest
import sublet
from sublet.operate.cli.main import main
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import FULL_RANGE

from tests.contract.dynamodb_tables import create_table

pytestmark = pytest.mark.emulator

PACKAGE = str(Path(sublet.__file__).parent)
MAX_MODULES = 71
"""Of all layers, from the arguments' parser to the bytes of a row. Eleven more when each command built every port."""
UNUSED_PORTS = {
    "aws/metrics.py",
    "aws/standard_output.py",
    "aws/tables/control.py",
    "aws/tables/sketch_store.py",
    "aws/tables/worker_reports.py",
    "system/python_log.py",
}


class ModulesEntered:
    """The modules of sublet in the order in which one of their functions is first called, until the first conditional
    UpdateItem. What a module calls while it is imported does not count, nor what runs in other threads, since other
    tests may have left some.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.has_written = False
        make_call = vars(botocore.client.BaseClient)["_make_api_call"]

        def call(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
            if operation == "UpdateItem" and "ConditionExpression" in arguments:
                self.has_written = True
            return make_call(client, operation, arguments)

        monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", call)

    def __enter__(self) -> Self:
        gc.collect()  # finalizers of other tests' objects are not the command's
        gc.disable()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(PACKAGE)
        if self.has_written or event != "call" or not is_function:
            return
        name = str(Path(code.co_filename).relative_to(PACKAGE))
        if name not in self.names and not _is_importing(frame):
            self.names.append(name)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def test_seek_builds_only_the_ports_that_it_uses(
    moto_aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    create_table(dynamodb, "audit", "leaseKey")
    create_table(dynamodb, "audit-sightings", "chunk")
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    shard = kinesis.list_shards(StreamName="orders")["Shards"][0]["ShardId"]
    number = kinesis.put_record(StreamName="orders", Data=b"paid", PartitionKey="a")["SequenceNumber"]
    dynamodb.put_item(TableName="audit", Item=encode_row(Lease(shard, Checkpoint(number), hash_key_range=FULL_RANGE)))
    with ModulesEntered(monkeypatch) as entered:
        status = main(["seek", "earliest", "--application", "audit", "--stream", "orders", "--execute"])
    print(*(f"{place:2} {name}" for place, name in enumerate(entered.names, 1)), sep="\n")
    assert (status, entered.has_written) == (0, True)
    assert UNUSED_PORTS.isdisjoint(entered.names)
    assert len(entered.names) <= MAX_MODULES
