"""Powertools for AWS Lambda, unchanged: its BatchProcessor, its async one, and its idempotency utility."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    BatchProcessor,
    EventType,
    async_process_partial_response,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.exceptions import UnexpectedBatchTypeError
from aws_lambda_powertools.utilities.data_classes import KinesisStreamEvent, event_source
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from sublet.protocol.aggregation import aggregate
from sublet.settings import HandlerContract
from sublet.testing import MemoryConsumer, consume

Json = dict[str, Any]
Fails = Callable[[bytes], bool]
LAMBDA: dict[str, Any] = {"handler_contract": HandlerContract.LAMBDA_EVENT}


class Once:
    """What fails when it comes for the first time."""

    def __init__(self, *data: bytes) -> None:
        self.left = set(data)
        self.seen: list[bytes] = []

    def __call__(self, data: bytes) -> None:
        self.seen.append(data)
        if data in self.left:
            self.left.discard(data)
            raise ValueError("not now")


def data_of(record: KinesisStreamRecord) -> bytes:
    return record.kinesis.data_as_bytes()


def sync_handler(each: Callable[[bytes], None]) -> Callable[[Json, Any], Any]:
    processor = BatchProcessor(event_type=EventType.KinesisDataStreams)

    def record_handler(record: KinesisStreamRecord) -> None:
        each(data_of(record))

    def lambda_handler(event: Json, context: Any) -> Any:
        return process_partial_response(
            event=event, record_handler=record_handler, processor=processor, context=context
        )

    return lambda_handler


def async_handler(each: Callable[[bytes], None]) -> Callable[[Json, Any], Any]:
    processor = AsyncBatchProcessor(event_type=EventType.KinesisDataStreams)

    async def record_handler(record: KinesisStreamRecord) -> None:
        await asyncio.sleep(0)
        each(data_of(record))

    def lambda_handler(event: Json, context: Any) -> Any:
        return async_process_partial_response(
            event=event, record_handler=record_handler, processor=processor, context=context
        )

    return lambda_handler


BOTH = pytest.mark.parametrize("made_of", [sync_handler, async_handler], ids=["sync", "async"])


@BOTH
@pytest.mark.parametrize("in_lambda", [False, True], ids=["process", "Lambda"])
def test_a_partial_failure_has_the_rest_come_again(
    made_of: Any, in_lambda: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processors handle all records of a batch; those after the failed one come twice, as behind Lambda's own."""
    if in_lambda:  # where the async processor keeps its own loop
        monkeypatch.setenv("LAMBDA_TASK_ROOT", "/var/task")
    each = Once(b"b", b"d")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # which it leaves to the garbage collector to close
        done = consume(made_of(each), [b"a", b"b", b"c", b"d"], **LAMBDA)
        gc.collect()
    assert each.seen == [b"a", b"b", b"c", b"d", b"b", b"c", b"d"]
    assert done.retries == 1


@BOTH
def test_a_batch_that_fails_whole_comes_again_whole(made_of: Any) -> None:
    each = Once(b"a", b"b")
    done = consume(made_of(each), [b"a", b"b"], **LAMBDA)
    assert each.seen == [b"a", b"b", b"a", b"b"]
    assert done.retries == 1


@BOTH
def test_powertools_batch_is_done_when_no_record_fails(made_of: Any) -> None:
    each = Once()
    done = consume(made_of(each), [b"a", b"b", b"c"], **LAMBDA)
    assert each.seen == [b"a", b"b", b"c"]
    assert done.retries == 0


@BOTH
def test_checkpoint_stays_before_a_record_that_powertools_keeps_failing(made_of: Any) -> None:
    def each(data: bytes) -> None:
        if data == b"b":
            raise ValueError("never")

    consumer = MemoryConsumer(handler_attempts=2, **LAMBDA)
    first, _, _ = consumer.put(("k", b"a"), ("k", b"b"), ("k", b"c"))
    with pytest.raises(Exception, match="failed") as raised:
        consumer.consume(made_of(each))
    assert not isinstance(raised.value, AssertionError)
    [checkpoint] = consumer.checkpoints.values()
    assert str(checkpoint) == first


@BOTH
def test_user_records_of_one_aggregate_come_again_from_its_first(made_of: Any) -> None:
    each = Once(b"2")
    whole = aggregate([("a", None, b"1"), ("a", None, b"2"), ("a", None, b"3")])
    consume(made_of(each), [("a", b"0"), ("a", whole)], **LAMBDA)
    assert each.seen == [b"0", b"1", b"2", b"3", b"1", b"2", b"3"]


def test_a_coroutine_that_runs_a_processor_itself() -> None:
    """`async def lambda_handler` is not Lambda's, and is ours: on our loop, with the processor in a thread."""
    each = Once(b"b")
    handler = sync_handler(each)

    async def lambda_handler(event: Json, context: Any) -> Any:
        return await asyncio.to_thread(handler, event, context)

    consume(lambda_handler, [b"a", b"b"], **LAMBDA)
    assert each.seen == [b"a", b"b", b"b"]


def test_a_processor_that_all_leases_share_loses_no_failure() -> None:
    """It is a module's global, and the leases are of one process."""
    each = Once(*(b"%d" % number for number in range(0, 40, 3)))
    consumer = MemoryConsumer(shards=4, batch_size=3, **LAMBDA)
    consumer.put(*(b"%d" % number for number in range(40)))
    consumer.consume(sync_handler(each))
    assert set(each.seen) == {b"%d" % number for number in range(40)}
    assert each.left == set()


class InMemory(BasePersistenceLayer):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Powertools states no types here
        self.rows: dict[str, DataRecord] = {}

    def _get_record(self, idempotency_key: str) -> DataRecord:
        if idempotency_key not in self.rows:
            raise IdempotencyItemNotFoundError
        return self.rows[idempotency_key]

    def _put_record(self, data_record: DataRecord) -> None:
        if data_record.idempotency_key in self.rows:
            raise IdempotencyItemAlreadyExistsError(old_data_record=self.rows[data_record.idempotency_key])
        self.rows[data_record.idempotency_key] = data_record

    def _update_record(self, data_record: DataRecord) -> None:
        self.rows[data_record.idempotency_key] = data_record

    def _delete_record(self, data_record: DataRecord) -> None:
        self.rows.pop(data_record.idempotency_key, None)


def idempotent_handler(each: Callable[[bytes], None], key: str) -> Callable[[Json, Any], Any]:
    config = IdempotencyConfig(event_key_jmespath=key)
    processor = BatchProcessor(event_type=EventType.KinesisDataStreams)

    def decode(record: Json) -> None:
        each(base64.b64decode(record["kinesis"]["data"]))

    once = idempotent_function(decode, data_keyword_argument="record", persistence_store=InMemory(), config=config)

    def record_handler(record: KinesisStreamRecord) -> None:
        once(record=record.raw_event)

    def lambda_handler(event: Json, context: Any) -> Any:
        config.register_lambda_context(context)
        return process_partial_response(
            event=event, record_handler=record_handler, processor=processor, context=context
        )

    return lambda_handler


def test_idempotency_utility_does_a_redelivered_record_once() -> None:
    each = Once(b"b")
    consume(idempotent_handler(each, "eventID"), [b"a", b"b", b"c"], **LAMBDA)
    assert each.seen == [b"a", b"b", b"c", b"b"], "c came again and was not done again"


def test_keyed_on_the_event_id_it_skips_no_user_record_of_an_aggregate() -> None:
    each = Once(b"2")
    whole = aggregate([("a", None, b"1"), ("a", None, b"2"), ("a", None, b"3")])
    consume(idempotent_handler(each, "eventID"), [("a", b"0"), ("a", whole)], **LAMBDA)
    assert each.seen == [b"0", b"1", b"2", b"3", b"2"]


def test_powertools_logger_and_event_classes_work() -> None:
    logger, seen = Logger(service="orders", stream=io.StringIO()), list[bytes]()

    @logger.inject_lambda_context
    @event_source(data_class=KinesisStreamEvent)
    def lambda_handler(event: KinesisStreamEvent, context: Any) -> str:
        seen.extend(data_of(record) for record in event.records)
        return "Successfully processed"

    consume(lambda_handler, [b"a", b"b"], **LAMBDA)
    assert seen == [b"a", b"b"]


def test_powertools_processor_refuses_an_empty_event() -> None:
    """So that there is never one."""
    with pytest.raises(UnexpectedBatchTypeError):
        sync_handler(Once())({"Records": []}, None)
