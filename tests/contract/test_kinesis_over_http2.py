"""The embedded Kinesis over HTTP/2, which Java's clients speak: signed as over HTTP/1.1, and events as they come."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer

from infra.local.embedded import REGION, EmbeddedAws, node
from tests.contract.subscriptions import Consumed, consumed

pytestmark = pytest.mark.emulator

CLIENT = Path(__file__).with_name("http2_client.cjs")
SHARD = "shardId-000000000000"


@pytest.fixture
def stream(embedded_aws: EmbeddedAws) -> Iterator[Consumed]:
    with consumed(embedded_aws) as stream:
        yield stream


def test_an_event_comes_at_once(stream: Consumed) -> None:
    stream.fan_out.takes(quiet_event_every=timedelta(hours=1))
    stream.put(b"1")
    with posted(stream.aws, "SubscribeToShard", asked(stream)) as said:
        assert said.readline().strip() == b"200"
        events = read(said)
        assert next(events) == ("initial-response", {})
        name, event = next(events)
        assert name == "SubscribeToShardEvent"
        assert [record["Data"] for record in event["Records"]] == ["MQ=="]
        stream.put(b"2")
        assert [record["Data"] for record in next(events)[1]["Records"]] == ["Mg=="]


def test_other_calls_are_answered_over_http2(stream: Consumed) -> None:
    with posted(stream.aws, "DescribeStreamConsumer", json.dumps({"ConsumerARN": stream.consumer_arn})) as said:
        assert said.readline().strip() == b"200"
        described = json.loads(bytes.fromhex(said.read().decode()))
    assert described["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE"


def test_wrong_secret_is_refused_over_http2(stream: Consumed) -> None:
    with posted(stream.aws, "SubscribeToShard", asked(stream), secret="guess") as said:
        assert said.readline().strip() == b"403"


def asked(stream: Consumed) -> str:
    position = {"Type": "TRIM_HORIZON"}
    return json.dumps({"ConsumerARN": stream.consumer_arn, "ShardId": SHARD, "StartingPosition": position})


@contextmanager
def posted(aws: EmbeddedAws, operation: str, body: str, secret: str | None = None) -> Iterator[IO[bytes]]:
    url, environment = aws.environment["AWS_ENDPOINT_URL_KINESIS"], aws.environment
    named = {"x-amz-target": f"Kinesis_20131202.{operation}", "content-type": "application/x-amz-json-1.1"}
    request = AWSRequest("POST", f"{url}/", data=body, headers=named)
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], secret or environment["AWS_SECRET_ACCESS_KEY"])
    SigV4Auth(keys, "kinesis", REGION).add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    client = [node(), str(CLIENT), url, json.dumps(headers), body]
    with subprocess.Popen(client, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout
        process.kill()


def read(said: IO[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    buffer = EventStreamBuffer()
    for line in said:
        buffer.add_data(bytes.fromhex(line.decode()))
        each: Iterator[Any] = iter(buffer)
        for message in each:
            headers: dict[str, str] = message.headers
            yield headers[":event-type"], json.loads(message.payload)
