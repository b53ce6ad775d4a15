"""Records posted to a server on loopback: none is lost while it is busy, and polling waits with it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sublet import Consumer
from sublet.testing import MemoryConsumer, consume
from sublet.testing.memory import MemoryStream, memory_ports

from examples.recipes.http import post_orders
from infra.local import EmbeddedAws
from tests.recipes.busy_server import Answer, BusyServer, busy_server
from tests.recipes.recipe_runs import RECIPES, RecipeRuns, put, wait_until

MIB = 1024 * 1024

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BusyServer]:
    with busy_server() as server:
        monkeypatch.setenv("POST_URL", server.url)
        post_orders.http.cache_clear()
        yield server
        post_orders.http().clear()
        post_orders.http.cache_clear()


@pytest.mark.parametrize("status", [429, 503])
def test_busy_server_is_asked_again_after_the_time_that_it_names(server: BusyServer, status: int) -> None:
    answers = iter([Answer(status, retry_after=2)])
    server.answer = lambda _: next(answers, Answer())
    consume(post_orders, [b"1", b"2", b"3"])
    (refused, key, body, _), (taken, same_key, same_body, _) = server.posted[:2]
    assert taken - refused >= 2
    assert (key, body) == (same_key, same_body)
    assert server.taken() == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("seconds", "retries"), [(10**9, 6), (7 * 15 + 6 * 60, 6), (7 * 15 + 6 * 60 - 1, 5), (89, 0), (0, 0)]
)
def test_record_gets_as_many_attempts_as_fit_into_its_call(seconds: int, retries: int) -> None:
    assert post_orders.retries_within(seconds).total == retries


def test_busy_server_makes_no_call_hang_however_short_its_time_is(server: BusyServer) -> None:
    """The call raises instead, and its records come again. One that is given up as hanging would end the process."""
    answers = iter([Answer(429, retry_after=60)] * 2)
    server.answer = lambda _: next(answers, Answer())
    done = consume(post_orders, [b"1", b"2"], handler_timeout="1m")
    assert done.retries == 2
    assert server.taken() == [b"1", b"2"]


def test_record_that_is_refused_is_set_aside_and_the_others_are_posted(server: BusyServer) -> None:
    server.answer = lambda body: Answer(422 if body == b"bad" else 200)
    consumer = MemoryConsumer(
        maximum_retry_attempts=0,
        bisect_batch_on_function_error=True,
        on_failure="arn:aws:sqs:eu-central-1:123456789012:given-up",
    )
    consumer.put(b"1", b"bad", b"2")
    done = consumer.consume(post_orders)
    assert [record.data for aside in done.set_aside for record in aside.records] == [b"bad"]
    assert server.taken() == [b"1", b"2"]


def test_polls_slow_down_while_the_server_takes_nothing_and_no_record_is_dropped(server: BusyServer) -> None:
    is_open = threading.Event()

    def answer(_: bytes) -> Answer:
        return Answer() if is_open.is_set() else Answer(503, retry_after=1)

    class Counting(MemoryStream):
        polls = 0

        def poll(self, *arguments: Any) -> Any:
            Counting.polls += 1
            return super().poll(*arguments)

    server.answer = answer
    stream = Counting(shards=1, name="orders")
    records = [b"%04d" % number + b"." * 500_000 for number in range(100)]
    stream.put_all([("key", record) for record in records])
    paced: dict[str, Any] = {"poll_limit": 10, "batch_size": 10, "max_bytes_in_flight": 20 * MIB}
    consumer = Consumer("posting", "orders", post_orders, ports=memory_ports(stream), **paced)
    running = threading.Thread(target=consumer.run, daemon=True)
    running.start()
    try:
        wait_until(lambda: Counting.polls > 4)
        before = Counting.polls
        threading.Event().wait(5)
        assert Counting.polls - before <= 6, (
            "only the lease manager looks, once a second; the reader would poll five times"
        )
        assert server.taken() == []
        is_open.set()
        wait_until(lambda: len(server.taken()) >= len(records))
    finally:
        is_open.set()
        consumer.stop()
        running.join(60)
    assert server.taken() == records, "in order, each once"


@pytest.mark.emulator
def test_record_is_posted_again_with_its_key_when_killed_before_the_checkpoint(
    aws: EmbeddedAws, stream: str, server: BusyServer, tmp_path: Path
) -> None:
    records = [b"%d" % number for number in range(40)]
    keyed = [(f"key-{number}", data) for number, data in enumerate(records)]
    put(aws, stream, keyed[:20])
    environment = {"POST_URL": server.url}
    runs = RecipeRuns(aws, stream, RECIPES / "http", "post_orders:handle", tmp_path, environment, {"batch_size": "5"})
    runs.run_until_killed()
    assert server.posted
    put(aws, stream, keyed[20:])
    runs.run_until(lambda: set(server.taken()) == set(records))
    of_key = {key: body for _, key, body, _ in server.posted}
    assert sorted(of_key.values()) == sorted(records), "a server that keeps the keys counts each once"
    assert max(Counter(server.taken()).values()) == 2, "and some came twice"
