"""A producer's loop whose own rules raise what no test has seen: every record and every wait ends, with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import sublet.aio
from sublet import Producer, ProducerFailed, RecordsNotPut
from sublet.protocol.stream_info import PutRecord
from sublet.testing.memory import MemoryAccount

from tests.unit.putting.test_loop import SECOND, Bench

WAITED = 60 * SECOND

RULES = ("add", "plan", "settle", "take_settled", "place", "placing_failed", "told", "flush", "is_settled")


class Breaking:
    """The rules, of which one raises from its `number`th call on that counts."""

    def __init__(self, real: Any, rule: str, number: int = 1, counts: Callable[..., bool] = lambda *_: True) -> None:
        self._real, self._rule, self._left, self._counts = real, rule, number, counts

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        return self._broken(real) if name == self._rule else real

    def _broken(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: Any) -> object:
            self._left -= self._counts(*arguments)
            if self._left <= 0:
                raise LookupError(f"{self._rule} is broken")
            return real(*arguments)

        return call


def break_rule(bench: Bench, rule: str, number: int = 1) -> None:
    bench.loop._producing = Breaking(bench.loop._producing, rule, number)  # type: ignore[assignment]


def outcomes(bench: Bench) -> dict[object, PutRecord | Exception]:
    return {record.ticket: some.outcome for some in bench.settled for record in some.user_records}


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("rule", RULES)
def test_whichever_rule_raises_each_record_is_told_of_once_and_a_close_returns(rule: str, number: int) -> None:
    bench = Bench()
    break_rule(bench, rule, number)
    if rule == "placing_failed":
        bench.stream.delete()
    put = []
    for data in (b"1", b"2", b"3"):
        try:
            bench.offer(data)
        except ProducerFailed:
            break
        put.append(data)
        bench.tasks.sleep(SECOND)
    assert bench.loop.close().wait(WAITED)
    told = [record.ticket for some in bench.settled for record in some.user_records]
    assert sorted(told, key=str) == put
    for outcome in outcomes(bench).values():
        if isinstance(outcome, ProducerFailed):
            assert isinstance(outcome.__cause__, LookupError)
            assert f"{rule} is broken" in str(outcome)
    assert bench.loop.buffered_bytes == 0


def test_an_answer_that_comes_after_the_failure_is_not_told_of_a_second_time() -> None:
    bench = Bench()
    bench.refuse = lambda _: bench.tasks.sleep(10 * SECOND)
    bench.offer(b"slow")
    bench.tasks.sleep(SECOND)
    break_rule(bench, "plan")
    bench.offer(b"later")
    bench.tasks.sleep(60 * SECOND)
    assert {ticket: type(outcome) for ticket, outcome in outcomes(bench).items()} == {
        b"slow": ProducerFailed,
        b"later": ProducerFailed,
    }
    assert bench.loop.buffered_bytes == 0
    assert bench.log.lines[-1].fields == {"problem": "LookupError"}


def test_failed_loop_counts_records_as_given_up_and_reports_why_once() -> None:
    bench = Bench()
    break_rule(bench, "plan")
    bench.offer(b"x")
    assert bench.loop.flush().wait(WAITED)
    failure = bench.loop.failure()
    assert failure is not None
    assert "1 record was given up" in str(failure)
    assert "LookupError: plan is broken" in str(failure)
    assert isinstance(failure.__cause__, ProducerFailed)
    assert isinstance(failure.__cause__.__cause__, LookupError)
    assert bench.loop.produced.given_up == 1
    assert bench.loop.close().wait(WAITED)
    assert bench.loop.failure() is None


def test_put_that_waits_for_room_fails_with_the_loop() -> None:
    bench = Bench(max_buffered_bytes=100)
    bench.refuse = lambda _: bench.tasks.sleep(5 * SECOND)
    bench.offer(b"x" * 90)
    room = bench.loop.offer(b"y" * 90, "key", None, b"y")
    assert room is not None
    break_rule(bench, "settle")
    assert room.wait(WAITED)
    with pytest.raises(ProducerFailed, match="settle is broken") as failed:
        bench.offer(b"y")
    assert isinstance(failed.value.__cause__, LookupError)


def break_at_next_record(producer: Producer | sublet.aio.Producer) -> None:
    """Not before it: its loop may still have something to do for the record before."""
    loop = producer._lazy_loop._loop
    assert loop is not None
    loop._producing = Breaking(loop._producing, "add", counts=lambda records, _: bool(records))  # type: ignore[assignment]


def orders_account() -> MemoryAccount:
    account = MemoryAccount()
    account.create("orders", 1)
    return account


def test_a_program_gets_the_fault_from_its_futures_its_flush_and_its_next_put() -> None:
    producer = Producer("orders", account=orders_account(), record_max_buffered_time=0.05)
    producer.put("key", b"1").result(30)
    break_at_next_record(producer)
    lost = producer.put("key", b"2")
    with pytest.raises(RecordsNotPut, match="add is broken"):
        producer.flush()
    with pytest.raises(ProducerFailed):
        lost.result(0)
    with pytest.raises(ProducerFailed, match="create a new producer"):
        producer.put("key", b"3")
    producer.close()


def test_async_producer_reports_a_failed_loop() -> None:
    async def story() -> None:
        producer = sublet.aio.Producer("orders", account=orders_account(), record_max_buffered_time=0.05)
        await (await producer.put("key", b"1"))
        break_at_next_record(producer)
        lost = await producer.put("key", b"2")
        with pytest.raises(RecordsNotPut, match="add is broken"):
            await producer.flush()
        with pytest.raises(ProducerFailed):
            lost.result()
        with pytest.raises(ProducerFailed):
            await (await producer.put("key", b"3"))
        await producer.close()

    asyncio.run(asyncio.wait_for(story(), 60))
