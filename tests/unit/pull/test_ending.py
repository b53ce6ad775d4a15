"""A pull program ends by stop(), by a signal, or at the end of its block, and calls in progress end first."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sublet import Consumer, SettingsError
from sublet.ports import Ports
from sublet.pull.record import Record
from sublet.testing.memory import MemoryStream, memory_ports

from tests.doubles.pulled import SECOND, PulledWorld

SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture
def world() -> PulledWorld:
    world = PulledWorld()
    world.put([f"a{number}" for number in range(10)])
    return world


@pytest.fixture
def ports() -> Ports:
    """With this machine's threads and clock."""
    stream = MemoryStream(name="orders")
    for number in range(100):
        stream.put("key", b"%d" % number)
    return memory_ports(stream)


@pytest.fixture(autouse=True)
def signals_go_where_they_went_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def owners(ports: Ports) -> set[str | None]:
    return {lease.actual_owner for lease in ports.table.scan().leases}


def checkpoints(ports: Ports) -> list[str]:
    return [lease.checkpoint.sequence_number for lease in ports.table.scan().leases]


def test_stop_ends_every_pull_and_later_acks_still_count(world: PulledWorld) -> None:
    def stop_later() -> None:
        world.sleep(10)
        consumer.stop()

    with world.consumer() as consumer:
        world.tasks.spawn(stop_later)
        came = list(consumer.messages())
        assert consumer.stopped
        assert len(came) == 10
        assert sum(record.ack() for record in came) == 10
        assert consumer.next() is None
        assert list(consumer.fetch(10)) == []
    assert world.owners == {None}


def test_stop_ends_a_pull_outside_of_a_block_too(world: PulledWorld) -> None:
    consumer = world.consumer()
    seen = 0
    for record in consumer.messages():
        record.ack()
        seen += 1
        if seen == 10:
            consumer.stop()
    assert seen == 10
    world.sleep(3)
    assert world.owners == {None}


def test_a_loop_that_ignores_the_stop_gets_an_error(world: PulledWorld) -> None:
    def loop() -> None:
        with world.consumer() as consumer:
            while True:
                for record in consumer.fetch(100, expires=1):
                    record.ack()
                    consumer.stop()
                world.sleep(0.1)

    with pytest.raises(RuntimeError, match=r"while not consumer\.stopped"):
        loop()
    assert world.owners == {None}


def wait_until_it_gives_no_more(consumer: Consumer) -> None:
    """Which it looks for twice a second."""
    assert consumer._group.entered is not None
    until = time.monotonic() + 30
    while consumer._group.entered.buffer.is_open:
        assert time.monotonic() < until, "the signal was not heard"
        time.sleep(0.01)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_messages_after_the_record_in_hand(ports: Ports, number: int) -> None:
    seen = 0
    with Consumer("audit", "orders", ports=ports, until_signalled=True) as consumer:
        for record in consumer.messages():
            seen += 1
            if seen == 3:
                os.kill(os.getpid(), number)
                wait_until_it_gives_no_more(consumer)
            assert record.ack()
            last = record
    assert 3 <= seen < 100
    assert owners(ports) == {None}
    assert checkpoints(ports) == [last.sequence_number]


@pytest.mark.parametrize("lanes", [None, 3])
def test_signal_lets_running_calls_end_and_begins_no_other(ports: Ports, lanes: int | None) -> None:
    ended: list[bool] = []

    def callback(record: Record) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until_it_gives_no_more(consumer)
        ended.append(record.ack())

    with Consumer("audit", "orders", ports=ports, until_signalled=True) as consumer:
        consumer.consume(callback, partition_by_key=lanes).wait()
    assert ended == [True]
    assert owners(ports) == {None}


def test_until_signalled_is_refused_outside_the_main_thread(ports: Ports) -> None:
    problems: list[Exception] = []

    def enter() -> None:
        try:
            with Consumer("audit", "orders", ports=ports, until_signalled=True):
                pass
        except SettingsError as problem:
            problems.append(problem)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert "until_signalled = True: allowed only in the main thread" in str(problems[0])


def begun(world: PulledWorld, consumer: Consumer, takes: float, ended: list[Any]) -> None:
    """A callback that takes so long, and says then how it went."""
    is_called = world.tasks.signal()

    def callback(record: Record) -> None:
        is_called.set()
        world.sleep(takes)
        ended.append((record.data, record.ack()))

    consumer.consume(callback)
    assert is_called.wait(timedelta(minutes=1))


def test_leaving_the_block_lets_running_calls_end_and_begins_no_other(world: PulledWorld) -> None:
    ended: list[Any] = []

    def interrupted() -> None:
        with world.consumer() as consumer:
            begun(world, consumer, 20, ended)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ended == [(b"a0", True)]
    assert world.owners == {None}
    assert len(world.checkpoints) == 1
    assert all(checkpoint.is_sequence_number for checkpoint in world.checkpoints.values())


def test_a_call_that_hangs_is_waited_for_no_longer_than_drain_timeout(world: PulledWorld) -> None:
    began = world.clock.steady()
    ended: list[Any] = []
    with world.consumer(drain_timeout=30 * SECOND) as consumer:
        begun(world, consumer, 10_000, ended)
    assert 30 * SECOND <= world.clock.steady() - began < 35 * SECOND
    assert ended == []
    assert world.owners == {None}


def test_a_callback_may_leave_the_block_itself(world: PulledWorld) -> None:
    def callback(record: Record) -> None:
        record.ack()
        consumer.__exit__(None, None, None)
        left_at.append(world.clock.steady())

    left_at: list[Any] = []
    began = world.clock.steady()
    consumer = world.consumer().__enter__()
    consumer.consume(callback)
    world.sleep(20)
    assert left_at[0] - began < 5 * SECOND
    assert world.owners == {None}
