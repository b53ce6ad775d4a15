"""Each fault that a test can plant in a subscription of the embedded AWS, as botocore meets it."""

from __future__ import annotations

import gc
import hashlib
import hmac
import http.client
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from botocore.eventstream import ChecksumMismatch
from botocore.exceptions import ClientError, EventStreamError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import ProtocolError

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import Fault
from tests.contract.subscriptions import END, Consumed, consumed

pytestmark = pytest.mark.emulator

AT_ONCE = timedelta(0)
NEVER = timedelta(hours=1)


@pytest.fixture
def stream(embedded_aws: EmbeddedAws) -> Iterator[Consumed]:
    with consumed(embedded_aws) as stream:
        stream.fan_out.takes(again_after=AT_ONCE, quiet_event_every=NEVER)
        stream.put(b"1")
        yield stream


def test_a_refused_call(stream: Consumed) -> None:
    stream.fan_out.plant(Fault("refuse", code="KMSThrottlingException"))
    with pytest.raises(ClientError, match="KMSThrottlingException"):
        stream.subscribe()
    assert stream.subscribe().records(1) == [b"1"], "once"


def test_a_cut_connection(stream: Consumed) -> None:
    stream.fan_out.plant(Fault("cut", at=1))
    subscription = stream.subscribe()
    assert subscription.records(1) == [b"1"]
    stream.put(b"2")
    assert isinstance(subscription.last(), ProtocolError)


@pytest.mark.parametrize("what", ["exception", "error"])
def test_an_exception_or_error_in_mid_stream(stream: Consumed, what: str) -> None:
    stream.fan_out.plant(Fault("exception" if what == "exception" else "error", code="KMSDisabledException"))
    problem = stream.subscribe().last()
    assert isinstance(problem, EventStreamError)
    assert problem.response["Error"]["Code"] == "KMSDisabledException"


def test_an_early_end(stream: Consumed) -> None:
    stream.fan_out.plant(Fault("end"))
    assert stream.subscribe().next() is END


def test_a_delay_and_a_silence(stream: Consumed) -> None:
    stream.fan_out.plant(Fault("delay", lasting=timedelta(seconds=0.5)), Fault("silence"))
    started = time.monotonic()
    assert stream.subscribe().records(1) == [b"1"]
    assert time.monotonic() - started > 0.5
    stream.fan_out.takes(lasts=timedelta(seconds=0.3))
    assert stream.subscribe().next() is END


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_initial_responses(stream: Consumed) -> None:
    stream.fan_out.plant(Fault("no_initial"), Fault("repeat"))
    with pytest.raises(ResponseParserError, match="initial-response"):
        stream.subscribe()
    gc.collect()  # botocore leaves its connection open there: the warning is to come in this test
    assert stream.subscribe().records(1) == [b"1"]


def test_a_damaged_message(stream: Consumed) -> None:
    stream.fan_out.plant(Fault("damage", at=1))
    subscription = stream.subscribe()
    assert subscription.records(1) == [b"1"]
    stream.put(b"2")
    assert isinstance(subscription.last(), ChecksumMismatch)


def test_a_reply_without_chunks(stream: Consumed) -> None:
    stream.fan_out.takes(lasts=timedelta(seconds=2))
    stream.fan_out.plant(Fault("unchunked"))
    reply = stream.client.subscribe_to_shard(
        ConsumerARN=stream.consumer_arn,
        ShardId="shardId-000000000000",
        StartingPosition={"Type": "TRIM_HORIZON"},
    )
    assert "transfer-encoding" not in reply["ResponseMetadata"]["HTTPHeaders"]
    (event,) = reply["EventStream"]
    assert [record["Data"] for record in event["SubscribeToShardEvent"]["Records"]] == [b"1"]
    reply["EventStream"].close()


def test_refused_call_uses_up_no_planted_fault(stream: Consumed) -> None:
    stream.fan_out.takes(again_after=NEVER)
    stream.subscribe().event()
    stream.fan_out.plant(Fault("end"))
    with pytest.raises(stream.client.exceptions.ResourceInUseException):
        stream.subscribe()
    stream.fan_out.takes(again_after=AT_ONCE)
    assert stream.subscribe().next() is END


def test_a_fault_of_another_shard_waits(stream: Consumed) -> None:
    stream.fan_out.plant(Fault("end", shard_id="shardId-000000000007"))
    assert stream.subscribe().records(1) == [b"1"]


@pytest.mark.parametrize(
    ("headers", "key"), [({}, None), ({}, "guess"), ({"origin": "https://elsewhere.example"}, "right")]
)
def test_planting_a_fault_requires_the_secret(
    embedded_aws: EmbeddedAws, headers: dict[str, str], key: str | None
) -> None:
    environment = embedded_aws.environment
    body = json.dumps({"consumer": "*"}).encode()
    secret = environment["AWS_SECRET_ACCESS_KEY"] if key == "right" else "guess"
    proof = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    sent = headers | ({"x-sublet-door": proof} if key else {})
    connection = http.client.HTTPConnection(urlsplit(environment["AWS_ENDPOINT_URL_KINESIS"]).netloc, timeout=10)
    connection.request("POST", "/_sublet/fan-out", body, sent)
    assert connection.getresponse().status == 403
    connection.close()
