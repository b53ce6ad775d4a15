"""A deployed consumer that reads by fan-out: CloudFormation registers its consumer, its workers read with it and with
nothing more, and destroying the stack deregisters it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.local import EmbeddedAws
from infra.local import embedded_aws as start_embedded_aws
from infra.local.deploy import deploy, destroy
from infra.local.fan_out import FanOut
from tests.e2e.deliveries import Recorder, out_of_order
from tests.e2e.fleet import HANDLERS, Fleet
from tests.e2e.test_least_privilege import judged
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

STREAM = "pushed"
KEYS = [f"key-{n}" for n in range(20)]


@pytest.fixture
def aws() -> Iterator[EmbeddedAws]:
    """Separate, because what is deployed here goes on reading until it ends."""
    with start_embedded_aws() as aws:
        yield aws


@explores
def test_a_stack_reads_by_its_own_registered_consumer(aws: EmbeddedAws, tmp_path: Path) -> None:
    kinesis: Any = aws.client("kinesis")
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName=STREAM, WaiterConfig={"Delay": 1})
    arn = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamARN"]
    context = {
        "application": "pushed",
        "stream_arn": arn,
        "handler_code": str(HANDLERS),
        "handler": "recorder:handle",
        "handler_environment": json.dumps({"RECORDER_DIRECTORY": str(tmp_path)}),
        "mode": "continuous",
        "fan_out": "true",
        "window": "1m",
        "window_margin": "10s",
    }
    fleet = Fleet(aws, STREAM, deploy(aws, context), Recorder(tmp_path))
    (consumer,) = kinesis.list_stream_consumers(StreamARN=arn)["Consumers"]
    assert (consumer["ConsumerName"], consumer["ConsumerStatus"]) == ("pushed", "ACTIVE")
    texts = fleet.produce(KEYS)
    fleet.tick()
    fleet.recorder.wait_for(texts, 60)
    fleet.split()
    texts += fleet.produce(KEYS)
    assert out_of_order(fleet.recorder.wait_for(texts, 60)) == []
    calls = FanOut(aws, consumer["ConsumerARN"]).calls()
    assert {call.shard_id for call in calls if call.answer == "subscribed"} == {
        shard["ShardId"] for shard in kinesis.list_shards(StreamName=STREAM)["Shards"]
    }
    denied = {each.action for each in judged(aws) if not each.is_allowed}
    assert denied <= {"dynamodb:Scan"}, "of a KCL's table, if there is one"
    destroy(aws, context)
    left = kinesis.list_stream_consumers(StreamARN=arn)["Consumers"]
    assert [each for each in left if each["ConsumerStatus"] != "DELETING"] == []
