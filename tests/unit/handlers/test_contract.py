"""A handler that looks like one and handles nothing is refused before its first call, or fails its batch."""

from __future__ import annotations

import asyncio
import functools
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest
from sublet.errors import HandlerContractBroken, HandlerNotLoadable
from sublet.handlers.batch import HandlerFunctions
from sublet.handlers.load import handler_of

from tests.doubles.user_records import batch_of

BATCH = batch_of(b"data")


SEEN: list[object] = []


async def handle_async(batch: object) -> None:
    await asyncio.sleep(0)
    SEEN.append(batch)


def handle_yielding(batch: object) -> Iterator[int]:
    yield 1


async def handle_async_yielding(batch: object) -> AsyncIterator[int]:
    yield 1


class AsyncCall:
    async def __call__(self, batch: object) -> None:
        await handle_async(batch)


class AsyncMethod:
    async def handle(self, batch: object) -> None:
        await handle_async(batch)


async def forgets_to_await(batch: object) -> object:
    return handle_async(batch)


async def leaves_a_task(batch: object) -> object:
    return asyncio.ensure_future(handle_async(batch))


def leaves_a_future(_: object) -> object:
    return Future[None]()


async def one_by_one(batch: Any) -> object:
    return [handle_async(record) for record in batch.records]


@functools.cache
def pool() -> ThreadPool:
    return ThreadPool(1)


@pytest.fixture(scope="module", autouse=True)
def _pool_ends() -> Iterator[None]:
    with pool():
        yield


@contextmanager
def under_contextmanager(batch: object) -> Iterator[None]:
    SEEN.append(batch)
    yield


@asynccontextmanager
async def under_asynccontextmanager(batch: object) -> AsyncIterator[None]:
    SEEN.append(batch)
    yield


def decorated(function: Callable[[Any], object]) -> Callable[[Any], object]:
    """As most decorators are: what the function returns is what it returns."""

    @functools.wraps(function)
    def wrapper(batch: object) -> object:
        return function(batch)

    return wrapper


@pytest.mark.parametrize(
    "handler",
    [
        handle_async,
        functools.partial(handle_async),
        AsyncCall(),
        functools.partial(AsyncCall()),
        AsyncMethod(),
        AsyncMethod().handle,
        decorated(handle_async),
    ],
    ids=lambda handler: type(handler).__name__,
)
def test_async_handler_has_run_when_its_call_returns(handler: object) -> None:
    SEEN.clear()
    handler_of(handler).handle(BATCH)
    assert SEEN == [BATCH]


@pytest.mark.parametrize(
    "handler",
    [
        handle_yielding,
        handle_async_yielding,
        functools.partial(functools.partial(handle_yielding)),
    ],
    ids=lambda handler: type(handler).__name__,
)
def test_generator_handler_is_refused_before_a_call(handler: object) -> None:
    with pytest.raises(HandlerNotLoadable, match="calling it runs none of its code"):
        handler_of(handler)


@pytest.mark.parametrize(
    ("handler", "what_to_do"),
    [
        (decorated(handle_async_yielding), "use a loop instead of yield or map"),
        (decorated(handle_yielding), "use a loop instead of yield or map"),
        (lambda batch: map(print, batch.records), "use a loop instead of yield or map"),
        (forgets_to_await, "a value of type coroutine, whose work is not finished: await it"),
        (leaves_a_task, "a value of type Task, whose work is not finished: await it"),
        (leaves_a_future, r"a value of type Future, whose work is not finished: .* its result\(\)"),
        (one_by_one, "a value of type coroutine in a value of type list, whose work is not finished"),
        (lambda batch: [handle_async(batch)], "a value of type coroutine in a value of type list, whose"),
        (lambda _: (None, Future()), r"a value of type Future in a value of type tuple, .* its result\(\)"),
        (lambda batch: {"stored": handle_async(batch)}, "a value of type coroutine in a value of type dict"),
        (lambda batch: pool().map_async(print, batch.records), r"MapResult, .*: call its get\(\)"),
        (
            lambda batch: [pool().apply_async(print, (batch,))],
            r"ApplyResult in .* list, .*: call its get\(\)",
        ),
        (under_contextmanager, "none of which has run: remove @contextmanager"),
        (under_asynccontextmanager, "none of which has run: remove @contextmanager"),
        (lambda _: {"batchItemFailures": []}, "call batch.checkpoint"),
        (lambda _: {"batchItemFailures": [{"itemIdentifier": "1"}]}, "call batch.checkpoint"),
    ],
)
def test_handler_that_returns_unfinished_work_fails_its_batch(handler: object, what_to_do: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that a coroutine was never awaited
        with pytest.raises(HandlerContractBroken, match=what_to_do):
            handler_of(handler).handle(BATCH)
        gc.collect()


@pytest.mark.parametrize("call", ["lease_acquired", "lease_releasing", "lease_lost", "shard_ended"])
def test_the_optional_functions_are_held_to_the_same(call: str) -> None:
    def never_run(*_: object) -> Iterator[int]:
        yield 1

    handler = HandlerFunctions(print, never_run, never_run, never_run, never_run)
    arguments = ("shard", None) if call == "lease_acquired" else ("shard",)
    with pytest.raises(HandlerContractBroken):
        getattr(handler, call)(*arguments)


def test_coroutine_with_a_running_decorator_is_a_handler() -> None:
    seen: list[object] = []

    async def handle(batch: object) -> None:
        seen.append(batch)

    @functools.wraps(handle)
    def run(batch: object) -> None:
        asyncio.run(handle(batch))

    handler_of(run).handle(BATCH)
    assert seen == [BATCH]


def test_returned_value_is_warned_about_without_being_shown() -> None:
    handler = handler_of(lambda _: {"secret": "payload"})
    with pytest.warns(UserWarning, match="a value of type dict, which is ignored") as told:
        handler.handle(BATCH)
    assert "payload" not in str(told[0].message)


def test_filters_that_make_errors_of_warnings_fail_no_batch() -> None:
    """As `python -W error` does, or a handler's own module: the batch would come again for ever."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        handler_of(lambda _: 7).handle(BATCH)


def test_returned_value_is_warned_about_once() -> None:
    handler = handler_of(lambda _: 7)
    with warnings.catch_warnings(record=True) as told:
        warnings.resetwarnings()
        for _ in range(3):
            handler.handle(BATCH)
    assert len(told) == 1


def takes_one(batch: object) -> None: ...


def takes_any(*batches: object) -> None: ...


def takes_two(event: object, context: object) -> None: ...


def takes_a_default(batch: object, table: str = "orders") -> None: ...


@pytest.mark.parametrize(
    "handler",
    [
        print,
        takes_one,
        takes_any,
        takes_a_default,
        functools.partial(takes_two, "orders"),
        functools.wraps(takes_two)(takes_one),
    ],
)
def test_handler_of_one_argument_is_accepted(handler: object) -> None:
    handler_of(handler).handle(BATCH)


@pytest.mark.parametrize(
    "handler",
    [
        takes_two,
        lambda: None,
        functools.partial(takes_two, 1, 2),
        functools.wraps(takes_one)(takes_two),
    ],
)
def test_handler_of_another_signature_is_refused_with_its_signature(handler: object) -> None:
    with pytest.raises(HandlerNotLoadable, match=r"takes \(.*\), but is called with \(batch\)"):
        handler_of(handler)
