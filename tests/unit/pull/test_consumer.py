"""A consumer in three lines, over memory."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sublet import Batch, Consumer, HandlerNotLoadable, Mode, SettingsError
from sublet.aio import Consumer as AsyncConsumer
from sublet.aws.ports import with_stream_arn
from sublet.ports import Ports
from sublet.protocol.lease import Lease
from sublet.pull.streams import Context
from sublet.settings import Settings, StartKind, StartPosition
from sublet.testing.memory import MemoryAccount, MemoryLeaseTable, MemoryStream, memory_ports

PATIENCE = 10.0
FAST: dict[str, Any] = {"failover_time": timedelta(seconds=3), "heartbeat_interval": timedelta(seconds=1)}
ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


@pytest.fixture
def stream() -> MemoryStream:
    stream = MemoryStream(2, name="orders")
    stream.put("customer-7", b"a")
    stream.put("customer-8", b"b")
    return stream


@pytest.fixture
def ports(stream: MemoryStream) -> Ports:
    return memory_ports(stream)


@pytest.fixture
def in_background() -> Iterator[Callable[[Consumer], threading.Thread]]:
    """Run one in a thread; whatever became of the test, it is stopped."""
    started: list[tuple[Consumer, threading.Thread]] = []

    def run(consumer: Consumer) -> threading.Thread:
        thread = threading.Thread(target=consumer.run)
        thread.start()
        started.append((consumer, thread))
        return thread

    yield run
    for consumer, thread in started:
        consumer.stop()
        thread.join(PATIENCE)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"stream": None}, "stream = None: a stream's name, or its ARN"),
        ({"stream": b"orders"}, "stream = b'orders': a stream's name, or its ARN"),
        (
            {"stream": "arn:aws:sqs:eu-west-1:123456789012:orders"},
            "stream = 'arn:aws:sqs.*: the ARN of a stream",
        ),
        ({"ports": MemoryAccount()}, "ports = .*: Ports"),
        ({"account": Context(MemoryAccount())}, "account = .*context.account"),
        ({"on_event": 5}, "on_event = 5: a function"),
    ],
)
@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_consumer_names_the_invalid_argument(kind: type, given: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        kind("audit", **{"stream": "orders", **given})


def test_async_consumer_refuses_a_handler() -> None:
    with pytest.raises(SettingsError, match=r"handler = .*: not allowed with sublet.aio: sublet.Consumer"):
        AsyncConsumer("audit", "orders", handler=print)  # type: ignore[call-arg] # as in a program without type checks


def test_handler_may_stop_the_consumer_which_checkpoints_and_releases(ports: Ports) -> None:
    seen: list[bytes] = []

    def handle(batch: Batch) -> None:
        seen.extend(record.data for record in batch.records)
        if len(seen) == 2:
            consumer.stop()

    consumer = Consumer("orders-audit", "orders", handle, ports=ports)
    consumer.run()
    assert sorted(seen) == [b"a", b"b"]
    for lease in ports.table.scan().leases:
        assert lease.lease_owner is None


def test_another_thread_may_stop_the_consumer(
    ports: Ports, in_background: Callable[[Consumer], threading.Thread]
) -> None:
    class Handler:
        def __init__(self) -> None:
            self.acquired: list[str] = []
            self.handled = threading.Event()
            self.released: list[str] = []

        def handle(self, batch: Batch) -> None:
            assert batch.records
            self.handled.set()

        def lease_acquired(self, shard_id: str, *_: object) -> None:
            self.acquired.append(shard_id)

        def lease_releasing(self, shard_id: str) -> None:
            self.released.append(shard_id)

    handler = Handler()
    consumer = Consumer("orders-audit", "orders", handler, ports=ports, **FAST)
    thread = in_background(consumer)
    assert handler.handled.wait(PATIENCE)
    consumer.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert handler.released
    assert sorted(handler.released) == sorted(handler.acquired)


def test_consumer_stopped_before_it_ran_creates_nothing(ports: Ports) -> None:
    consumer = Consumer("orders-audit", "orders", print, ports=ports)
    consumer.stop()
    consumer.run()
    assert ports.table.scan().leases == ()


def test_consumers_share_a_stream(stream: MemoryStream, in_background: Callable[[Consumer], threading.Thread]) -> None:
    table, seen, both = MemoryLeaseTable(), set[bytes](), threading.Event()

    def handle(batch: Batch) -> None:
        seen.update(record.data for record in batch.records)
        if len(seen) == 2:
            both.set()

    for number in range(2):
        in_background(
            Consumer(
                "orders-audit",
                "orders",
                handle,
                ports=memory_ports(stream, table),
                worker_id=f"process-{number}",
                **FAST,
            )
        )
    assert both.wait(PATIENCE)
    assert all(isinstance(row, Lease) for row in table.scan().leases)


def test_signal_stops_the_consumer_with_until_signalled(ports: Ports) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(_: Batch) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        Consumer("orders-audit", "orders", handle, ports=ports).run(until_signalled=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_signal_handlers_are_restored_after_a_run(ports: Ports) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(_: Batch) -> None:
        consumer.stop()

    consumer = Consumer("orders-audit", "orders", handle, ports=ports)
    try:
        consumer.run(until_signalled=True)
        assert {number: signal.getsignal(number) for number in before} == before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_process_is_continuous_and_its_own_worker_by_default(ports: Ports) -> None:
    settings = Consumer("orders-audit", "orders", print, ports=ports).settings
    assert settings.mode is Mode.CONTINUOUS
    assert (settings.worker_id or "").startswith(f"orders-audit-{socket.gethostname()}-")
    told = Consumer("orders-audit", "orders", print, ports=ports, mode=Mode.CATCH_UP, worker_id="me").settings
    assert (told.mode, told.worker_id) == (Mode.CATCH_UP, "me")


@pytest.mark.parametrize("handler", [print, None])
def test_a_setting_may_be_given_as_its_text(ports: Ports, handler: Any) -> None:
    """As everywhere else: in the environment, on the command line, as a property of the construct."""
    texts: dict[str, Any] = {"start_position": "LATEST", "failover_time": "45s", "batch_size": "7"}
    settings = Consumer("orders-audit", "orders", handler, ports=ports, **texts).settings
    assert settings.start_position == StartPosition(StartKind.LATEST)
    assert (settings.failover_time, settings.batch_size) == (timedelta(seconds=45), 7)
    wrong: dict[str, Any] = {"start_position": "NEWEST"}
    with pytest.raises(SettingsError, match="one of TRIM_HORIZON, LATEST, AT_TIMESTAMP"):
        Consumer("orders-audit", "orders", handler, ports=ports, **wrong)


def test_a_stream_may_be_given_by_its_arn(ports: Ports) -> None:
    settings = Consumer("orders-audit", ARN, print, ports=ports).settings
    assert (settings.stream, settings.stream_arn) == ("orders", ARN)


@pytest.mark.parametrize("stream", ["", "no stream", "arn:aws:kinesis", "arn:aws:sqs:eu-west-1:123456789012:orders"])
def test_consumer_is_refused_for_an_invalid_stream(stream: str) -> None:
    with pytest.raises(SettingsError, match="setting stream"):
        Consumer("orders-audit", stream, print)


def test_consumer_with_a_handler_refuses_to_pull() -> None:
    account = MemoryAccount()
    account.create("orders", 2)
    consumer = Consumer("orders-audit", "orders", print, account=account)
    consumer.create()
    assert account.stream_of("orders-audit") is not None
    assert consumer.info(positions=False).shards == ()
    for pull in (consumer.__enter__, consumer.next, consumer.messages, lambda: consumer.consume(print)):
        with pytest.raises(SettingsError, match="allowed only to run a consumer"):
            pull()


@pytest.mark.parametrize("handler", [None, print])
def test_consumer_refuses_invalid_bounds_when_made(handler: Any) -> None:
    with pytest.raises(SettingsError, match="max_ack_pending"):
        Consumer("orders-audit", "orders", handler, max_ack_pending=-5)
    with pytest.raises(SettingsError, match="ack_wait"):
        AsyncConsumer("orders-audit", "orders", ack_wait="5s")  # type: ignore[arg-type] # as in a program without type checks


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"maximum_retry_attempts": 3},
            "maximum_retry_attempts = 3: not allowed on a consumer that pulls records: .*record.term",
        ),
        (
            {"maximum_record_age": "1h"},
            "maximum_record_age = .*: not allowed on a consumer that pulls.*record.term",
        ),
        ({"parallelization_factor": 2}, "parallelization_factor = 2: not allowed .*partition_by_key"),
        ({"handler_contract": "lambda_event"}, "handler_contract = .*: not allowed .*no handler"),
        ({"checkpointing": "automatic"}, "checkpointing = .*: not allowed .*record.ack"),
        ({"handler_timeout": "5m"}, "handler_timeout = .*: not allowed .*ack_wait"),
    ],
)
@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_pull_consumer_refuses_handler_settings_by_name(kind: type, given: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        kind("audit", "orders", **given)


def test_pull_consumer_accepts_handler_settings_equal_to_its_own() -> None:
    given: dict[str, Any] = {"checkpointing": "manual", "handler_timeout": None, "handler_attempts": 5}
    assert Consumer("audit", "orders", **given).settings.handler_attempts == 5


def test_consumer_refuses_an_invalid_handler_before_it_runs() -> None:
    def handle(batch: Batch) -> Iterator[None]:
        yield

    with pytest.raises(HandlerNotLoadable):
        Consumer("orders-audit", "orders", handle)  # type: ignore[arg-type] # type checkers see it too
    with pytest.raises(SettingsError, match="handler_atempts"):
        Consumer("orders-audit", "orders", print, handler_atempts=3)  # type: ignore[call-arg] # type checkers see it too


def test_an_arn_that_is_known_is_not_asked_for() -> None:
    settings = Settings(application="orders-audit", stream="orders", stream_arn=ARN)
    assert with_stream_arn(settings) is settings
