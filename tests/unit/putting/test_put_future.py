"""A record's future does all that concurrent.futures' own does, whether somebody waits for it before or after its
outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, as_completed, wait
from threading import Event, Thread

import pytest
from sublet.errors import RecordRefused
from sublet.protocol.stream_info import PutRecord
from sublet.putting.put_future import PutFuture

AT = PutRecord("shardId-000000000000", "1")
REFUSED = RecordRefused("no")


def test_a_future_that_nobody_waits_for_makes_no_lock() -> None:
    future = PutFuture()
    future.settle(AT)
    assert future.done()
    assert "made" not in vars(future)
    assert future.result() is AT
    assert future.exception() is None


def test_an_error_is_raised_by_its_result() -> None:
    future = PutFuture()
    future.settle(REFUSED)
    assert future.exception() is REFUSED
    with pytest.raises(RecordRefused):
        future.result()


def result(future: Future[PutRecord]) -> object:
    return future.result(60)


def waited(future: Future[PutRecord]) -> object:
    return next(iter(wait([future], 60).done)).result(0)


def completed(future: Future[PutRecord]) -> object:
    return next(as_completed([future], 60)).result(0)


def awaited(future: Future[PutRecord]) -> object:
    async def wrapped() -> PutRecord:
        return await asyncio.wrap_future(future)

    return asyncio.run(wrapped())


def called_back(future: Future[PutRecord]) -> object:
    called = Event()
    future.add_done_callback(lambda _: called.set())
    assert called.wait(60)
    return future.result(0)


@pytest.mark.parametrize("ask", [result, waited, completed, awaited, called_back])
@pytest.mark.parametrize("is_before", [True, False])
def test_every_way_to_wait_for_a_future_ends(ask: Callable[[Future[PutRecord]], object], is_before: bool) -> None:
    for _ in range(50):
        future = PutFuture()
        found: list[object] = []
        waiting = Thread(target=lambda future=future, found=found: found.append(ask(future)))
        if is_before:
            waiting.start()
        future.settle(AT)
        if not is_before:
            waiting.start()
        waiting.join(60)
        assert found == [AT]


def test_cancelled_future_stays_cancelled() -> None:
    future = PutFuture()
    assert future.cancel()
    assert future.done()
    with pytest.raises(InvalidStateError):
        future.settle(AT)
    settled = PutFuture()
    settled.settle(AT)
    assert not settled.cancel()
    assert not settled.cancelled()
