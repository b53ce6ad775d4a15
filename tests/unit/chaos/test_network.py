"""The bad network of `make chaos` does to a request what it says, and boto3 treats it as it would treat AWS."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse, IncompleteRead, RemoteDisconnected
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from sublet.aws.faults import CONNECTION_FAILED, is_transient
from sublet.aws.kinesis.cut_replies import refuse_cut_replies
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.errors import LeaseTableUnavailable

from benchmarks.counting_proxy import Connection, Reply, serving
from infra.local.embedded import REGION
from tests.chaos.network import Network, network
from tests.chaos.plan import Trouble

SOON = 60.0
"""Seconds: longer than any test here."""


class Wire:
    """A service that knows no lease, behind a network; `came` is what reached it."""

    def __init__(self, between: Network, came: list[str]) -> None:
        self.between, self.came = between, came
        between.share = 1.0
        config = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=20, proxies={})
        client = boto3.client(
            "dynamodb",
            REGION,
            endpoint_url=between.url,
            config=config,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        self.client = refuse_cut_replies(client)


@pytest.fixture
def wire() -> Iterator[Wire]:
    came: list[str] = []

    def answer(connection: Connection, operation: str, body: bytes) -> None:
        came.append(operation)
        lost = {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "message": "no"}
        status, said = (400, lost) if operation == "UpdateItem" else (200, {"padding": "x" * 100})
        headers = [("content-type", "application/x-amz-json-1.0")]
        connection.answer(Reply(status, headers, json.dumps(said).encode()))

    with ExitStack() as stack:
        between = stack.enter_context(network(stack.enter_context(serving(answer)), "seed"))
        yield Wire(between, came)


@pytest.mark.parametrize(
    ("trouble", "reached"),
    [(Trouble.LOSE_REQUEST, 0), (Trouble.LOSE_REPLY, 1), (Trouble.TRUNCATE, 1), (Trouble.THROTTLE, 0)],
)
def test_bad_network_makes_the_table_unavailable_until_it_is_calm(wire: Wire, trouble: Trouble, reached: int) -> None:
    wire.between.burst(trouble, SOON)
    with pytest.raises((ClientError, *CONNECTION_FAILED)) as raised:
        wire.client.get_item(TableName="leases", Key={"leaseKey": {"S": "a"}})
    if isinstance(raised.value, ClientError):
        assert trouble in (Trouble.THROTTLE, Trouble.TRUNCATE)
        assert is_transient(raised.value)
    assert len(wire.came) == reached
    with pytest.raises(LeaseTableUnavailable):
        DynamoDbLeaseTable(wire.client, "leases").get("a")
    assert wire.between.hit == {trouble: 2}
    wire.between.calm()
    assert DynamoDbLeaseTable(wire.client, "leases").get("a") is None


PIECES = (b"first event", b"second event", b"third event")
"""What the service sends of a subscription, one after the other."""


@pytest.fixture
def subscribed() -> Iterator[tuple[Network, Callable[[], HTTPResponse]]]:
    """A network in front of a service whose every subscription has these events, and a call of SubscribeToShard through
    it.
    """

    def answer(connection: Connection, _: str, __: bytes) -> None:
        connection.begin_chunks(200, [])
        for piece in (*PIECES, b""):
            connection.write_chunk(piece)

    with ExitStack() as stack:
        between = stack.enter_context(network(stack.enter_context(serving(answer)), "seed"))
        between.share, between.delays = 1.0, (0.2, 0.2)

        def subscribe() -> HTTPResponse:
            client = HTTPConnection(urlsplit(between.url).netloc, timeout=10)
            stack.callback(client.close)
            client.request("POST", "/", b"{}", {"x-amz-target": "Kinesis_20131202.SubscribeToShard"})
            return client.getresponse()

        yield between, subscribe


def test_a_subscription_passes_a_good_network_whole(
    subscribed: tuple[Network, Callable[[], HTTPResponse]],
) -> None:
    between, subscribe = subscribed
    assert subscribe().read() == b"".join(PIECES)
    assert (between.subscriptions, between.hit) == (1, {})


@pytest.mark.parametrize("trouble", [Trouble.LOSE_REQUEST, Trouble.LOSE_REPLY, Trouble.TRUNCATE])
def test_a_subscription_that_has_begun_is_cut_in_an_event(
    subscribed: tuple[Network, Callable[[], HTTPResponse]], trouble: Trouble
) -> None:
    between, subscribe = subscribed
    begun = between.subscribed

    def subscribed_before_it_is_bad() -> None:
        begun()
        between.burst(trouble, SOON)

    between.subscribed = subscribed_before_it_is_bad  # type: ignore[method-assign]
    with pytest.raises(IncompleteRead) as cut:
        subscribe().read()
    assert cut.value.partial == PIECES[0][: len(PIECES[0]) // 2]
    assert (between.subscriptions, between.hit) == (1, {trouble: 1})


def test_a_subscription_is_held_up_and_loses_nothing(
    subscribed: tuple[Network, Callable[[], HTTPResponse]],
) -> None:
    between, subscribe = subscribed
    between.burst(Trouble.DELAY, SOON)
    began = time.monotonic()
    assert subscribe().read() == b"".join(PIECES)
    assert time.monotonic() - began > 0.4, "the call and its events"


@pytest.mark.parametrize("trouble", [Trouble.LOSE_REPLY, Trouble.TRUNCATE, Trouble.LOSE_REQUEST])
def test_a_call_of_which_nothing_comes_back(
    subscribed: tuple[Network, Callable[[], HTTPResponse]], trouble: Trouble
) -> None:
    between, subscribe = subscribed
    between.burst(trouble, SOON)
    with pytest.raises((ConnectionError, RemoteDisconnected)):
        subscribe()
    assert between.subscriptions == 0
