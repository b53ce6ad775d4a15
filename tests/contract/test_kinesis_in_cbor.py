"""The embedded SubscribeToShard in CBOR, which Java's SDK speaks with Kinesis: asked and answered."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer

from infra.local.embedded import REGION, EmbeddedAws
from tests.contract.subscriptions import Consumed, consumed

pytestmark = pytest.mark.emulator

CBOR = "application/x-amz-cbor-1.1"


@pytest.fixture
def stream(embedded_aws: EmbeddedAws) -> Iterator[Consumed]:
    with consumed(embedded_aws) as stream:
        yield stream


def test_events_are_in_cbor_with_their_data_as_it_is(stream: Consumed) -> None:
    data = bytes(range(256))
    stream.put(data)
    position = {"Type": "TRIM_HORIZON"}
    asked = {
        "ConsumerARN": stream.consumer_arn,
        "ShardId": "shardId-000000000000",
        "StartingPosition": position,
    }
    found: dict[str, tuple[str, bytes]] = {}
    with posted(stream.aws, asked) as reply:
        assert reply.status == 200
        messages = EventStreamBuffer()
        while "SubscribeToShardEvent" not in found:
            messages.add_data(reply.read1(65_536))
            for message in messages:
                headers: dict[str, str] = message.headers  # type: ignore[assignment]
                found[headers[":event-type"]] = headers[":content-type"], message.payload
    assert found["initial-response"] == (CBOR, b"\xa0"), "an empty map"
    content_type, event = found["SubscribeToShardEvent"]
    assert content_type == CBOR
    assert event.startswith(b"\xa3" + text("Records") + b"\x81"), "a map of three, and a list of one record"
    assert text("Data") + b"\x59\x01\x00" + data in event, "a byte string"
    assert text("ApproximateArrivalTimestamp") + b"\xc1\x1b" in event, (
        "a moment: a tag, and eight bytes of milliseconds"
    )


def test_a_refusal_is_in_cbor_too(stream: Consumed) -> None:
    with posted(stream.aws, {"ConsumerARN": stream.consumer_arn}) as refused:
        assert (refused.status, refused.headers["x-amzn-errortype"]) == (400, "ValidationException")
        assert refused.headers["content-type"] == CBOR
        assert text("__type") + text("ValidationException") in refused.read()


def text(content: str) -> bytes:
    """In CBOR."""
    size = len(content)
    return bytes([0x60 + size] if size < 24 else [0x78, size]) + content.encode()


def encoded(content: str | Mapping[str, object]) -> bytes:
    if isinstance(content, str):
        return text(content)
    items = [text(name) + encoded(value) for name, value in content.items()]  # type: ignore[arg-type]
    return bytes([0xA0 + len(items)]) + b"".join(items)


@contextmanager
def posted(aws: EmbeddedAws, asked: Mapping[str, object]) -> Iterator[http.client.HTTPResponse]:
    url, environment = aws.environment["AWS_ENDPOINT_URL_KINESIS"], aws.environment
    named = {"x-amz-target": "Kinesis_20131202.SubscribeToShard", "content-type": CBOR}
    request = AWSRequest("POST", f"{url}/", data=encoded(asked), headers=named)
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    SigV4Auth(keys, "kinesis", REGION).add_auth(request)
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as connection:
        connection.request("POST", "/", encoded(asked), dict(request.headers))
        with closing(connection.getresponse()) as reply:
            yield reply
