"""Does something once for each order, though its producer may put it twice and a crash brings it again.

A position tells repeated deliveries apart, but not an event that its producer put twice, which has two positions. So
this is keyed by the event's own id, with Powertools' idempotency in a DynamoDB table: an id that was handled within
KEPT is skipped, in any shard, of any worker, by `sublet redrive` too.

* A worker that dies within the effect leaves the id in progress. The record comes again, and its calls raise
  IdempotencyAlreadyInProgressError and are repeated, until the time of the dead worker's call is over: keep
  `handler_timeout` short. Then the effect is done again: it may have happened, or not.
* So the effect is done at least once, and once unless a worker dies, or is suspended, between the effect and the write
  that notes it. Where that must not be, hand the id to what you call, as in ../http, or keep it in the transaction of
  the effect, as in ../postgres.

Needs SEEN_TABLE, with the key `id` (text) and `expiration` as its time to live, and CHARGES, a queue's URL.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from sublet import Batch

KEPT = timedelta(days=2)
"""Longer than the stream's retention, and than anything waits to be redriven."""

CONFIG = IdempotencyConfig(
    event_key_jmespath="id", raise_on_no_idempotency_key=True, expires_after_seconds=int(KEPT.total_seconds())
)


def handle(batch: Batch) -> None:
    CONFIG.register_lambda_context(Deadline(batch.remaining_time_in_millis))  # type: ignore[arg-type]
    for record in batch.records:
        charge_once()(order=json.loads(record.data))
        batch.checkpoint(record)


@dataclass(frozen=True)
class Deadline:
    """What Powertools asks a Lambda's context for: after this time, an id in progress may be tried again."""

    get_remaining_time_in_millis: Callable[[], int]


def charge(order: dict[str, Any]) -> None:
    """The effect. What it returns would be stored with the id."""
    sqs().send_message(QueueUrl=os.environ["CHARGES"], MessageBody=json.dumps(order))


@cache
def charge_once() -> Callable[..., None]:
    seen = DynamoDBPersistenceLayer(os.environ["SEEN_TABLE"])
    once: Callable[..., None] = idempotent_function(
        charge, data_keyword_argument="order", persistence_store=seen, config=CONFIG
    )
    return once


@cache
def sqs() -> Any:
    return boto3.client("sqs")
