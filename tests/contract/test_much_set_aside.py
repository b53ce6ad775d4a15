"""A redrive of more than fits into memory, and than a queue returns at once: all of it, each shard's in order."""

from __future__ import annotations

import io
import random
import tracemalloc
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from sublet.aws.set_aside import sqs_store
from sublet.aws.set_aside.failure_destinations import AVAILABLE, HIDDEN, SqsDestination, set_aside_store
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.operate.redrive import Redrive, RedriveProgress
from sublet.ports import KeptBatch, SetAsideStore, StoreCounts
from sublet.protocol.failure_document import SetAsideBatch, messages, object_bytes, object_key
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import Settings
from sublet.testing.memory import FakeClock, MemoryLog

from tests.contract.test_failure_destination import AT, batch, make_bucket, make_queue, queue_store

pytestmark = pytest.mark.emulator

SETTINGS = Settings(application="orders", stream="events", handler="orders:handle")
SHARDS = ("shardId-000000000000", "shardId-000000000001")
RECORD_BYTES = 100_000


def redriven(store: SetAsideStore, fails: Collection[str] = ()) -> tuple[RedriveProgress, list[tuple[str, str]]]:
    called: list[tuple[str, str]] = []

    def handle(given: Batch) -> None:
        called.append((given.shard_id, given.records[0].sequence_number))
        if given.records[0].sequence_number in fails:
            raise ValueError("still bad")

    done = Redrive(store, HandlerFunctions(handle), SETTINGS, FakeClock(), MemoryLog()).run()
    return done, called


@pytest.mark.parametrize("kind", ["sqs", "s3"])
def test_each_shard_s_are_done_in_order(moto_aws: None, kind: str) -> None:
    """The shards' batches were put in turn, each backwards; their numbers have any length."""
    store: Any = queue_store(make_queue()) if kind == "sqs" else set_aside_store(make_bucket("/sublet"))
    for number in reversed(range(8, 13)):
        for shard in SHARDS:
            store.put(batch(number, 1, shard))
    done, called = redriven(store)
    assert (done.done, done.batches, done.stays) == (10, 10, 0)
    assert called == [(shard, str(number)) for shard in SHARDS for number in range(8, 13)]


def large(number: int) -> SetAsideBatch:
    data = random.Random(number).randbytes(RECORD_BYTES)
    record = UserRecord(data, "key", 0, StreamRecord(str(number), data, "key", AT))
    return replace(batch(0), records=(record,))


class BottomlessQueue:
    """An SQS client whose `count` messages are made as they are received, the last one first, and are gone for good
    then.
    """

    def __init__(self, count: int) -> None:
        self._left = count

    def get_queue_url(self, **_: object) -> dict[str, str]:
        return {"QueueUrl": "https://queue"}

    def get_queue_attributes(self, **_: object) -> dict[str, Any]:
        return {"Attributes": {AVAILABLE: str(self._left), HIDDEN: "0"}}

    def receive_message(self, *, MaxNumberOfMessages: int, **_: object) -> dict[str, Any]:  # noqa: N803
        first = max(0, self._left - MaxNumberOfMessages)
        numbers, self._left = reversed(range(first, self._left)), first
        return {
            "Messages": [
                {"MessageId": str(n), "ReceiptHandle": str(n), "Body": messages(large(n))[0].body} for n in numbers
            ]
        }

    def change_message_visibility(self, **_: object) -> None: ...

    def change_message_visibility_batch(self, **_: object) -> dict[str, Any]:
        return {}

    def delete_message(self, **_: object) -> None: ...


class BottomlessBucket:
    """An S3 client whose `count` objects are made as they are read."""

    def __init__(self, count: int) -> None:
        self._keys = {object_key(large(number), ""): number for number in range(count)}

    def get_paginator(self, _: str) -> BottomlessBucket:
        return self

    def paginate(self, **_: object) -> list[dict[str, Any]]:
        return [{"Contents": [{"Key": key} for key in sorted(self._keys)]}]

    def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803
        data = object_bytes(large(self._keys[Key]))
        return {"Body": io.BytesIO(data), "ContentLength": len(data), "ETag": "one"}

    def delete_object(self, **_: object) -> None: ...


@pytest.mark.parametrize("kind", ["sqs", "s3"])
def test_redrive_takes_the_memory_of_a_few_batches(kind: str) -> None:
    count, most = 200, 12 * 2**20  # of 20 MB, 27 MB in messages
    client: Any = BottomlessQueue(count) if kind == "sqs" else BottomlessBucket(count)
    store: Any = (
        SqsDestination(lambda: client, "arn:aws:sqs:::given-up")
        if kind == "sqs"
        else S3Destination(lambda: client, "given-up", "")
    )
    tracemalloc.start()
    try:
        done, called = redriven(store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done == RedriveProgress(batches=count, records_done=count, done=count)
    assert [number for _, number in called] == [str(number) for number in range(count)]
    assert peak < most


def test_a_fifo_queue_gives_all_though_it_gives_ten_of_a_shard_at_a_time(moto_aws: None) -> None:
    store = queue_store(make_queue("given-up.fifo", FifoQueue="true"))
    for number in range(25):
        store.put(batch(number, 1))
    done, called = redriven(store, fails={"3"})
    assert (done.done, done.failed) == (24, 1)
    assert [number for _, number in called] == [str(number) for number in range(25)]
    assert [number for _, number in redriven(store)[1]] == ["3"], "it is left, and can be had at once"


def test_redrive_gets_more_batches_than_one_round_receives(moto_aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqs_store, "ROUND_MAX", 20)
    store = queue_store(make_queue())
    for number in range(45):
        store.put(batch(number, 1))
    done, called = redriven(store, fails={"3", "44"})
    assert (done.done, done.failed, len(called)) == (43, 2, 45)
    assert {number for _, number in redriven(store)[1]} == {"3", "44"}


def test_closing_a_queue_leaves_batches_not_yet_given_visible(moto_aws: None) -> None:
    store = queue_store(make_queue())
    for number in range(12):
        store.put(batch(number, 1))
    giving = store.kept("orders")
    first = next(giving)
    assert isinstance(first, KeptBatch)
    assert first.batch == batch(0, 1)
    giving.close()
    assert store.counted() == StoreCounts(available=11, hidden=1)
