"""A handler of Lambda's event source mapping, unchanged, in the whole engine."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.errors import BatchItemsFailed, HandlerContractBroken, HandlerNotLoadable
from sublet.handlers.lambda_context import FunctionIdentity, LambdaContext
from sublet.handlers.lambda_event import LambdaEventHandler, turn_of
from sublet.handlers.load import handler_of
from sublet.protocol.aggregation import aggregate
from sublet.settings import HandlerContract, Settings
from sublet.testing import MemoryConsumer, batch, checkpointed, consume
from sublet.testing.batches import arn_of

from tests.doubles.engine_world import NO_WAITING, EngineWorld

Json = dict[str, Any]
LAMBDA = Settings(
    application="orders",
    stream="memory",
    stream_arn=arn_of("memory"),
    handler_contract=HandlerContract.LAMBDA_EVENT,
)


def data_of(event: Json) -> list[bytes]:
    return [base64.b64decode(record["kinesis"]["data"]) for record in event["Records"]]


def numbers_of(event: Json) -> list[str]:
    return [record["kinesis"]["sequenceNumber"] for record in event["Records"]]


class Function:
    """Remembers its events. `answers`: what its calls return, or raise, one after the other, and then None."""

    def __init__(self, *answers: Callable[[Json], object]) -> None:
        self.answers = list(answers)
        self.events: list[Json] = []
        self.contexts: list[LambdaContext] = []

    def __call__(self, event: Json, context: LambdaContext) -> object:
        self.events.append(event)
        self.contexts.append(context)
        return self.answers.pop(0)(event) if self.answers else None

    @property
    def seen(self) -> list[list[bytes]]:
        return [data_of(event) for event in self.events]


def fails_from(place: int) -> Callable[[Json], object]:
    return lambda event: {"batchItemFailures": [{"itemIdentifier": numbers_of(event)[place]}]}


def test_remaining_records_come_again_after_a_partial_failure() -> None:
    function = Function(fails_from(2), fails_from(1))
    done = consume(function, [b"a", b"b", b"c", b"d"], handler_contract=HandlerContract.LAMBDA_EVENT)
    assert function.seen == [[b"a", b"b", b"c", b"d"], [b"c", b"d"], [b"d"]]
    assert done.retries == 2


def test_records_before_the_first_item_failure_are_checkpointed() -> None:
    given = batch([b"a", b"b", b"c"])
    with pytest.raises(BatchItemsFailed, match="1 of 3 records failed, the first of them 3"):
        handler_of(Function(fails_from(2)), LAMBDA).handle(given)
    assert checkpointed(given) == [given.records[1]]


@pytest.mark.parametrize("answer", [fails_from(0), lambda _: {"batchItemFailures": [{"itemIdentifier": 1}]}])
def test_no_checkpoint_is_made_when_the_first_record_failed(answer: Callable[[Json], object]) -> None:
    given = batch([b"a", b"b"])
    with pytest.raises(BatchItemsFailed):
        handler_of(Function(answer), LAMBDA).handle(given)
    assert checkpointed(given) == []


def test_exception_fails_the_whole_batch() -> None:
    def broken(_: Json) -> object:
        raise ValueError("not now")

    function = Function(broken)
    consume(function, [b"a", b"b"], handler_contract=HandlerContract.LAMBDA_EVENT)
    assert function.seen == [[b"a", b"b"]] * 2


def test_a_failure_within_an_aggregate_covers_it_from_its_first_in_the_batch() -> None:
    whole = aggregate([("a", None, b"1"), ("a", None, b"2"), ("a", None, b"3")])
    function = Function(fails_from(2))
    consume(function, [("a", b"0"), ("a", whole)], handler_contract=HandlerContract.LAMBDA_EVENT)
    assert function.seen == [[b"0", b"1", b"2", b"3"], [b"1", b"2", b"3"]]


def test_a_failure_named_with_our_suffix_is_that_user_record_s() -> None:
    def third(event: Json) -> object:
        number = event["Records"][3]["eventID"].partition(":")[2]
        return {"batchItemFailures": [{"itemIdentifier": number}]}

    whole = aggregate([("a", None, b"1"), ("a", None, b"2"), ("a", None, b"3")])
    function = Function(third)
    consume(function, [("a", b"0"), ("a", whole)], handler_contract=HandlerContract.LAMBDA_EVENT)
    assert function.seen == [[b"0", b"1", b"2", b"3"], [b"3"]]


def test_function_gets_aggregates_whole_without_deaggregation() -> None:
    whole = aggregate([("a", None, b"1"), ("a", None, b"2")])
    function = Function(fails_from(1))
    consumer = MemoryConsumer(handler_contract=HandlerContract.LAMBDA_EVENT, deaggregate=False)
    consumer.put(("a", b"0"), ("a", whole))
    done = consumer.consume(function)
    assert function.seen == [[b"0", whole], [whole]]
    [checkpoint] = done.checkpoints.values()
    assert checkpoint.sub_sequence_number == 1, "the same as for one that handled its user records"


def test_an_aggregate_that_was_begun_by_user_records_comes_whole() -> None:
    whole = aggregate([("a", None, b"1"), ("a", None, b"2")])
    consumer = MemoryConsumer(handler_attempts=1)
    consumer.put(("a", whole))

    def first_only(batch: Any) -> None:
        batch.checkpoint(batch.records[0])
        raise ValueError("the second fails")

    with pytest.raises(ValueError, match="the second fails"):
        consumer.consume(first_only)
    function = Function()
    consumer.settings = replace(consumer.settings, handler_contract=HandlerContract.LAMBDA_EVENT, deaggregate=False)
    consumer.consume(function)
    assert function.seen == [[whole]]


def test_the_event_is_never_empty() -> None:
    function = Function()
    done = consume(function, [], handler_contract=HandlerContract.LAMBDA_EVENT)
    assert function.events == []
    assert done.retries == 0


def test_the_context_has_lambda_s_attributes_and_the_batch_s_time() -> None:
    function = Function()
    environment = {
        "AWS_LAMBDA_FUNCTION_NAME": "orders-LeaseWorker",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/orders-LeaseWorker",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2026/01/31/[$LATEST]1",
        "AWS_REGION": "eu-west-1",
    }
    role = "arn:aws:iam::999999999999:role/worker"
    identity = FunctionIdentity.of_function(
        environment, Settings(application="orders", stream="memory", invoke_identity_arn=role)
    )
    handler = handler_of(function, LAMBDA, identity)
    handler.handle(batch([b"a"]))
    handler.handle(batch([b"b"]))
    first, second = function.contexts
    assert first.get_remaining_time_in_millis() == 14 * 60 * 1000
    assert (first.function_name, first.function_version, first.memory_limit_in_mb) == (
        "orders-LeaseWorker",
        "$LATEST",
        "512",
    )
    assert first.invoked_function_arn == "arn:aws:lambda:eu-west-1:999999999999:function:orders-LeaseWorker"
    assert first.log_group_name == "/aws/lambda/orders-LeaseWorker"
    assert (first.identity, first.client_context) == (None, None)
    assert first.aws_request_id != second.aws_request_id
    assert set(LambdaContext.__struct_fields__) <= set(dir(first))
    assert not hasattr(first, "state"), "or Powertools takes it for a durable function's"


def test_lambda_context_in_a_process_names_the_application() -> None:
    identity = FunctionIdentity.of_process(LAMBDA)
    assert identity.function_name == "orders"
    assert identity.invoked_function_arn == "arn:aws:lambda:us-east-1:123456789012:function:orders"


@pytest.mark.parametrize(("concurrency", "at_once"), [(1, 1), (2, 2)])
def test_calls_overlap_only_if_asked_for(concurrency: int, at_once: int) -> None:
    """Two consumers of one process, each with a handler of its own: what they share, they share as in one Lambda."""
    inside, most = 0, 0
    lock, both = threading.Lock(), threading.Barrier(2)

    def function(event: object, context: object) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        if concurrency > 1:
            both.wait(30)
        with lock:
            inside -= 1

    identity = FunctionIdentity.of_process(LAMBDA)
    turn = turn_of(replace(LAMBDA, handler_concurrency=concurrency))
    handlers = [LambdaEventHandler(function, identity, "", turn) for _ in range(2)]
    threads = [threading.Thread(target=handler.handle, args=(batch([b"a"]),)) for handler in handlers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == at_once


def test_an_async_one_has_done_its_work_when_its_batch_counts() -> None:
    seen: list[list[bytes]] = []

    async def function(event: Json, context: LambdaContext) -> object:
        await asyncio.sleep(0)
        seen.append(data_of(event))
        return fails_from(1)(event) if len(seen) == 1 else None

    consume(function, [b"a", b"b"], handler_contract=HandlerContract.LAMBDA_EVENT)
    assert seen == [[b"a", b"b"], [b"b"]]


def test_a_generator_has_run_nothing() -> None:
    def function(event: Json, context: object) -> object:
        return map(print, event["Records"])

    with pytest.raises(HandlerContractBroken, match="none of which has run"):
        handler_of(function, LAMBDA).handle(batch([b"a"]))


@pytest.mark.parametrize("reports", [True, False])
def test_batch_is_not_done_when_the_result_is_not_json(reports: bool) -> None:
    handler = handler_of(lambda event, _: {"seen": set(event)}, replace(LAMBDA, report_batch_item_failures=reports))
    with pytest.raises(HandlerContractBroken, match="not JSON"):
        handler.handle(batch([b"a"]))


def test_an_await_that_was_forgotten_has_run_nothing() -> None:
    async def store(_: Json) -> None: ...

    async def function(event: Json, context: object) -> object:
        return store(event)

    with pytest.raises(HandlerContractBroken, match="whose work is not finished"):
        handler_of(function, LAMBDA).handle(batch([b"a"]))


def test_function_that_keeps_failing_raises_its_item_failures() -> None:
    consumer = MemoryConsumer(handler_contract=HandlerContract.LAMBDA_EVENT, handler_attempts=2)
    consumer.put(b"a", b"b")
    with pytest.raises(BatchItemsFailed):
        consumer.consume(Function(*[fails_from(0)] * 9))
    [line] = [line for line in consumer.log.lines if line.message == "handler failed"][1:]
    assert line.fields["error"] == "BatchItemsFailed"


def of_lambda(event: object, context: object) -> None: ...


def of_lambda_for_tests_too(event: object, context: object = None) -> None: ...


def of_ours(batch: object) -> None: ...


def of_ours_with_more(batch: object, table: str = "orders") -> None: ...


def of_none() -> None: ...


def by_name(*, event: object, context: object = None) -> None: ...


def of_any(*anything: object) -> None: ...


BATCH, LAMBDA_EVENT = HandlerContract.BATCH, HandlerContract.LAMBDA_EVENT


@pytest.mark.parametrize(
    ("handler", "contract", "sentence"),
    [
        (of_lambda, BATCH, r"\(event, context\).*\(batch\): set handler_contract=lambda_event"),
        (of_lambda_for_tests_too, BATCH, "set handler_contract=lambda_event"),
        (of_ours, LAMBDA_EVENT, r"\(batch\).*\(event, context\): set handler_contract=batch"),
        (of_none, LAMBDA_EVENT, r"takes \(\), but is called with \(event, context\)$"),
        (
            by_name,
            LAMBDA_EVENT,
            r"takes \(\*, event, context\), but is called with \(event, context\), by position$",
        ),
        (Function, LAMBDA_EVENT, "is a class"),
    ],
)
def test_a_handler_of_another_contract_gets_an_error_that_names_its_contract(
    handler: object, contract: HandlerContract, sentence: str
) -> None:
    settings = Settings(application="orders", stream="memory", handler_contract=contract)
    with pytest.raises(HandlerNotLoadable, match=sentence):
        handler_of(handler, settings)


@pytest.mark.parametrize(
    ("handler", "contract"),
    [
        (of_any, BATCH),
        (of_any, LAMBDA_EVENT),
        (of_ours_with_more, BATCH),
        (of_ours_with_more, LAMBDA_EVENT),
        (print, LAMBDA_EVENT),
    ],
)
def test_handler_that_fits_both_contracts_follows_the_setting(handler: object, contract: HandlerContract) -> None:
    handler_of(handler, Settings(application="orders", stream="memory", handler_contract=contract))


def test_hung_lambda_handler_ends_the_process_without_another_call() -> None:
    """A batch of ours would go on beside it."""
    settings = replace(NO_WAITING, handler_contract=LAMBDA_EVENT, handler_timeout=timedelta(seconds=5))
    world = EngineWorld(settings, shards=2)
    world.put("a", shard=0, of=2)
    world.put("b", shard=1, of=2)
    events: list[Json] = []

    def hang(event: Json, context: LambdaContext) -> None:
        events.append(event)
        world.tasks.sleep(timedelta(hours=1))

    turn = threading.Lock()  # not that of all tests, which a call that hangs would keep
    world.handler = LambdaEventHandler(hang, FunctionIdentity.of_process(settings), "", turn)  # type: ignore[assignment] # as a handler
    worker = world.worker()
    report = worker.run_window(world.item(), "invocation", world.clock.steady() + timedelta(minutes=10))
    assert len(events) == 1
    assert sorted(lease.outcome for lease in report.leases) == [
        SessionOutcome.HANDLER_HUNG,
        SessionOutcome.WINDOW_ENDED,
    ]
    assert worker.health.ends_now is not None


def test_item_failures_are_ignored_without_report_batch_item_failures() -> None:
    """As behind a mapping without ReportBatchItemFailures."""
    calls: list[list[bytes]] = []

    def function(event: Json, _: LambdaContext) -> object:
        calls.append(data_of(event))
        return fails_from(1)(event)

    done = consume(
        function,
        [b"a", b"b"],
        handler_contract=HandlerContract.LAMBDA_EVENT,
        report_batch_item_failures=False,
    )
    assert calls == [[b"a", b"b"]]
    assert done.retries == 0


@pytest.mark.parametrize("is_redrive", [False, True])
def test_lambda_context_tells_of_a_redrive(is_redrive: bool) -> None:
    function = Function()
    handler_of(function, LAMBDA).handle(batch([b"a"], is_redrive=is_redrive))
    assert function.contexts[0].is_redrive is is_redrive
