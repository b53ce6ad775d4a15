"""The hosts that a consumer calls, which an operator of a closed network has to allow, as listed in
docs/permissions.md.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.ports import aws_ports
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import StreamUnavailable
from sublet.settings import Settings

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
REGIONAL = "kinesis.eu-west-1.amazonaws.com"
DATA, CONTROL = f"123456789012.data-{REGIONAL}", f"123456789012.control-{REGIONAL}"


class Unsent(Exception):
    """Nothing leaves the machine."""


@pytest.fixture
def region(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (
        ("AWS_DEFAULT_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
    ):
        monkeypatch.setenv(name, value)
    return monkeypatch


def hosts(settings: Settings) -> dict[str, str]:
    """By call."""
    ports = aws_ports(settings, "lease_worker")
    stream, table, called = ports.stream, ports.table, list[str]()
    assert isinstance(stream, KinesisStream)
    assert isinstance(table, DynamoDbLeaseTable)

    def unsent(request: object, **_: object) -> None:
        called.append(str(urlsplit(getattr(request, "url", "")).hostname))
        raise Unsent

    for client in (stream._client, stream._poll_client, table._client):
        client.meta.events.register("before-send", unsent)
    calls: dict[str, Callable[[], object]] = {
        "ListShards": stream.list_shards,
        "GetShardIterator": lambda: stream.open("shardId-0", ReadPosition(IteratorType.TRIM_HORIZON)),
        "GetRecords": lambda: stream.poll("shardId-0 token", 10),
        "Scan": table.scan,
    }
    for call in calls.values():
        with pytest.raises(Unsent):
            call()
    return dict(zip(calls, called, strict=True))


def test_hosts_are_the_accounts_with_the_streams_arn(region: pytest.MonkeyPatch) -> None:
    assert hosts(Settings(application="orders", stream="orders", stream_arn=ARN)) == {
        "ListShards": CONTROL,
        "GetShardIterator": DATA,
        "GetRecords": DATA,
        "Scan": "dynamodb.eu-west-1.amazonaws.com",
    }


def test_dynamodb_host_is_the_accounts_where_the_account_is_known(region: pytest.MonkeyPatch) -> None:
    region.setenv("AWS_ACCOUNT_ID", "123456789012")
    settings = Settings(application="orders", stream="orders", stream_arn=ARN)
    assert hosts(settings)["Scan"] == "123456789012.ddb.eu-west-1.amazonaws.com"
    region.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")
    assert hosts(settings)["Scan"] == "dynamodb.eu-west-1.amazonaws.com"
    assert hosts(settings)["GetRecords"] == DATA, "Kinesis has its hosts from the stream's ARN"


def test_endpoint_variable_sends_all_kinesis_calls_to_the_regions_host(region: pytest.MonkeyPatch) -> None:
    region.setenv("AWS_ENDPOINT_URL_KINESIS", f"https://{REGIONAL}")
    called = hosts(Settings(application="orders", stream="orders", stream_arn=ARN))
    assert {called[name] for name in ("ListShards", "GetShardIterator", "GetRecords")} == {REGIONAL}


def test_a_host_that_cannot_be_reached_is_named(region: pytest.MonkeyPatch) -> None:
    region.setenv("AWS_ENDPOINT_URL_KINESIS", "http://127.0.0.1:1")
    region.setenv("AWS_MAX_ATTEMPTS", "1")
    stream = aws_ports(Settings(application="orders", stream="orders", stream_arn=ARN), "lease_worker").stream
    with pytest.raises(StreamUnavailable, match=r'"http://127\.0\.0\.1:1/".*hosts for each account.*Closed networks'):
        stream.list_shards()
