"""The bad network of `make chaos`: what it does to a request is what it says, and boto3 takes it for what AWS would do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from sublet.aws.cut_replies import refuse_cut_replies
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.aws.faults import CONNECTION_FAILED, is_transient
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
            "dynamodb", REGION, endpoint_url=between.url, config=config,
            aws_access_key_id="test", aws_secret_access_key="test",
        )  # fmt: skip
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
def test_what_a_bad_one_does_and_how_the_consumer_takes_it(
    wire: Wire, trouble: Trouble, reached: int
) -> None:
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
