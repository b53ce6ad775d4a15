"""Orders charged once, with an emulated DynamoDB and SQS, though producers and crashes repeat them."""

from __future__ import annotations

import json
import time
from functools import wraps
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from msgspec.structs import replace
from sublet.testing import batch, consume

from examples.recipes.dedupe import charge_once
from infra.local import EmbeddedAws

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


@pytest.fixture
def charges(aws: EmbeddedAws, stream: str, monkeypatch: pytest.MonkeyPatch) -> Charges:
    queue = aws.client("sqs").create_queue(QueueName=stream)["QueueUrl"]
    aws.client("dynamodb").create_table(
        TableName=stream,
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    monkeypatch.setenv("SEEN_TABLE", stream)
    monkeypatch.setenv("CHARGES", queue)
    charge_once.charge_once.cache_clear()
    charge_once.sqs.cache_clear()
    return Charges(aws.client("sqs"), queue)


class Charges:
    def __init__(self, client: Any, queue: str) -> None:
        self.client = client
        self.queue = queue

    def take(self) -> list[str]:
        """The orders' ids, in any order."""
        taken: list[str] = []
        while messages := self.client.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            taken += [json.loads(message["Body"])["id"] for message in messages]
        return sorted(taken)


def order(number: int) -> tuple[str, bytes]:
    return f"customer-{number}", json.dumps({"id": f"order-{number}", "cents": 100}).encode()


def test_order_that_its_producer_put_twice_is_charged_once(charges: Charges) -> None:
    consume(charge_once, [order(1), order(2), order(1), order(3), order(2)], shards=2)
    assert charges.take() == ["order-1", "order-2", "order-3"]


def test_order_that_comes_again_after_a_failure_is_charged_once(charges: Charges) -> None:
    fails = iter([True])

    def fails_at_the_end(given: Any) -> None:
        charge_once.handle(given)
        if next(fails, False):
            raise ConnectionError("killed before the checkpoint")

    done = consume(fails_at_the_end, [order(1), order(2)])
    assert done.retries == 1
    assert charges.take() == ["order-1", "order-2"]


def test_order_whose_worker_died_within_the_charge_is_charged_when_its_time_is_over(
    charges: Charges, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """As SIGKILL: Powertools notes nothing after it."""

    def dies(order: dict[str, Any]) -> None:
        raise Killed

    key, data = order(1)
    given = replace(batch([(key, data)]), remaining_time_in_millis=lambda: 2000)
    with monkeypatch.context() as patch:
        patch.setattr(charge_once, "charge", wraps(charge_once.charge)(dies))
        charge_once.charge_once.cache_clear()
        with pytest.raises(Killed):
            charge_once.handle(given)
    charge_once.charge_once.cache_clear()
    with pytest.raises(IdempotencyAlreadyInProgressError):
        charge_once.handle(given)
    assert charges.take() == []
    time.sleep(2.1)
    charge_once.handle(given)
    assert charges.take() == ["order-1"]
