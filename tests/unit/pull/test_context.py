"""A consumer's definition is stored beside its leases and followed, and a program with other options is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sublet import Consumer, Context, SettingsError, SettingsInConflict, Stream, StreamError, StreamMode
from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.errors import LeaseTableNotFound, StreamNotAdopted
from sublet.settings import StartKind, StartPosition
from sublet.testing.memory import FakeClock, MemoryAccount
from sublet.testing.turn_taking import TurnTaking

LATEST = StartPosition(StartKind.LATEST)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def context() -> Context:
    clock = FakeClock()
    context = Context(MemoryAccount(clock=clock, tasks=TurnTaking(clock)))
    context.create_stream("orders", shards=1)
    return context


@pytest.fixture
def orders(context: Context) -> Stream:
    return context.stream("orders")


@pytest.mark.parametrize("name", ["", "a" * 129, "with a space", "arn:aws:kinesis:us-east-1:000000000000:stream/x"])
def test_create_stream_refuses_an_invalid_name_in_memory_too(context: Context, name: str) -> None:
    with pytest.raises(SettingsError, match="1 to 128 of A-Z"):
        context.create_stream(name)
    assert context.streams() == ["orders"]


@pytest.mark.parametrize(
    ("key", "data", "hash_key", "named"),
    [
        ("", b"data", None, "partitionKey is ''; 1 to 256 characters"),
        ("k" * 257, b"data", None, "1 to 256 characters"),
        (7, b"data", None, "partitionKey is 7"),
        ("key", "text", None, "data is of type str; bytes"),
        ("key", None, None, "data is null"),
        ("key", bytes(10 * 2**20 + 1), None, "at most 10485760 bytes"),
        ("key", b"data", "abc", "a decimal number below"),
        ("key", b"data", str(2**128), "a decimal number below"),
        ("key", b"data", 7, "explicitHashKey is 7"),
    ],
)
def test_put_refuses_in_memory_what_kinesis_would_refuse(
    context: Context, orders: Stream, key: Any, data: Any, hash_key: Any, named: str
) -> None:
    with pytest.raises(StreamError, match=re.escape(named)):
        orders.put(key, data, explicit_hash_key=hash_key)


def test_a_record_within_all_limits_is_put(context: Context, orders: Stream) -> None:
    largest = bytes(10 * 2**20 - 256)
    with pytest.raises(StreamError, match=r"orders takes no record of 10,485,760 bytes: .*is 1,024, .*up to 10,240"):
        orders.put("k" * 256, largest)
    context.update_stream("orders", max_record_kib=10_240)
    put = orders.put("k" * 256, largest, explicit_hash_key=str(2**128 - 1))
    assert len(orders.get(put.shard_id, put.sequence_number)) == 1


def test_limits_and_use(context: Context, orders: Stream) -> None:
    context.update_stream("orders", shards=3)
    context.create_stream("invoices")
    info = context.account_info()
    assert (info.open_shards, info.on_demand_streams) == (3, 1)
    context.update_stream("orders", shards=1)
    context.update_stream("invoices", mode=StreamMode.PROVISIONED)
    info = context.account_info()
    assert (info.open_shards, info.on_demand_streams) == (5, 0)


def test_create_stream_refuses_an_invalid_mode_before_any_call(context: Context) -> None:
    with pytest.raises(SettingsError, match="mode"):
        context.create_stream("invoices", mode="PROVISIONED")  # type: ignore[arg-type] # as in a program without type checks
    assert context.streams() == ["orders"]


def test_a_program_goes_by_the_definition(orders: Stream) -> None:
    orders.create_consumer("audit", ack_wait=timedelta(seconds=5))
    orders.put("key", b"first")
    with orders.consumer("audit") as consumer:
        first = consumer.next()
        assert first is not None
        again = consumer.next(expires=10)
        assert again is not None
        assert again.attempt == 2


def test_a_program_with_another_option_gets_an_error(orders: Stream) -> None:
    orders.create_consumer("audit", failover_time=MINUTE)
    with pytest.raises(SettingsInConflict, match="failover_time"):
        orders.consumer("audit", failover_time=2 * MINUTE).next()
    with pytest.raises(SettingsInConflict, match="failover_time"):
        Consumer("audit", "orders", print, account=orders._account, failover_time=2 * MINUTE).run()
    with pytest.raises(SettingsInConflict, match="failover_time"):
        orders.create_consumer("audit", failover_time=2 * MINUTE)
    assert orders.create_consumer("audit", failover_time=MINUTE).next(expires=1) is None
    as_text: Any = "60000ms"
    assert orders.create_consumer("audit", failover_time=as_text).next(expires=1) is None
    assert orders.create_consumer("audit").next(expires=1) is None


def test_pulling_defines_nothing(orders: Stream, context: Context) -> None:
    orders.create_consumer("audit", failover_time=MINUTE)
    before = definition(orders)
    orders.consumer("audit", batch_size=7).next(expires=1)
    assert definition(orders) == before
    assert before["failover_time"] == "1m"


def definition(orders: Stream) -> dict[str, str]:
    ports, _ = orders.consumer("audit")._environment().compose(orders._account.tasks.signal())
    return dict(ports.sightings.load().definition or {})


def test_an_update_is_gone_by_and_the_start_stays(orders: Stream) -> None:
    orders.create_consumer("audit", failover_time=MINUTE)
    orders.update_consumer("audit", max_ack_pending=7)
    assert (definition(orders)["failover_time"], definition(orders)["max_ack_pending"]) == ("1m", "7")
    with pytest.raises(SettingsError, match="cannot be updated"):
        orders.update_consumer("audit", start_position=LATEST)
    with pytest.raises(LeaseTableNotFound):
        orders.update_consumer("other", max_ack_pending=7)
    orders.create_or_update_consumer("audit", max_ack_pending=8)
    assert definition(orders)["max_ack_pending"] == "8"
    orders.create_or_update_consumer("other", start_position=LATEST)
    assert orders.consumers() == ["audit", "other"]


def meanwhile(orders: Stream, consumer: Consumer, change: Callable[[], object]) -> None:
    """While the consumer waits for a record."""

    def later() -> None:
        orders._account.tasks.signal().wait(timedelta(seconds=5))
        change()

    orders._account.tasks.spawn(later)
    with consumer:
        assert consumer.next(expires=120) is None


def test_running_program_is_told_of_an_update_and_ended_by_a_conflicting_one(orders: Stream) -> None:
    orders.create_consumer("audit", failover_time=MINUTE)
    events: list[Event] = []
    without = orders.consumer("audit", on_event=events.append)
    meanwhile(orders, without, lambda: orders.update_consumer("audit", failover_time=2 * MINUTE))
    assert [event.kind for event in events].count(EventKind.DEFINITION_CHANGED) == 1
    with pytest.raises(SettingsInConflict, match="failover_time"):
        meanwhile(
            orders,
            orders.consumer("audit", failover_time=2 * MINUTE),
            lambda: orders.update_consumer("audit", failover_time=3 * MINUTE),
        )


def test_deleting_a_consumer_ends_its_pulls(orders: Stream) -> None:
    consumer = orders.create_consumer("audit")
    with pytest.raises(LeaseTableNotFound):
        meanwhile(orders, consumer, lambda: orders.delete_consumer("audit"))
    orders.create_consumer("audit")
    with consumer:
        consumer.delete()
    assert orders.consumers() == []


def test_a_consumer_of_another_stream_is_not_changed_nor_deleted_here(context: Context, orders: Stream) -> None:
    context.create_stream("invoices", mode=StreamMode.ON_DEMAND).create_consumer("audit")
    before = definition(orders)
    for change in (orders.create_consumer, orders.update_consumer, orders.create_or_update_consumer):
        with pytest.raises(StreamNotAdopted, match=r"stream/invoices, created .*; this is .*stream/orders"):
            change("audit", max_ack_pending=7)
    assert definition(orders) == before
    with pytest.raises(StreamNotAdopted, match="delete it there"):
        orders.delete_consumer("audit")
    with pytest.raises(StreamNotAdopted):
        orders.consumer("audit").next()


def test_delete_is_refused_with_ports_without_an_account(context: Context) -> None:
    from sublet.testing.memory import memory_ports

    with pytest.raises(SettingsError, match="account"):
        Consumer("audit", "orders", ports=memory_ports()).delete()


def test_a_record_past_retention_is_not_found(context: Context, orders: Stream) -> None:
    put = orders.put("key", b"first")
    orders.put("key", b"second")
    account = context.account
    assert isinstance(account, MemoryAccount)
    assert [record.data for record in orders.get(put.shard_id, put.sequence_number)] == [b"first"]
    assert isinstance(account.clock, FakeClock)
    account.at("orders").trim(account.clock.advance(MINUTE))
    assert orders.get(put.shard_id, put.sequence_number) == []


@pytest.mark.parametrize(
    ("shard_id", "number", "named"),
    [
        ("shardId-000000000000", None, "orders has no record None: give its number as text"),
        ("shardId-000000000000", 5, "no record 5"),
        ("shardId-000000000000", "", "no record ''"),
        ("shardId-000000000000", "abc", "no record 'abc'"),
        (None, "5", "orders has no shard None: name one as record.shard_id does"),
    ],
)
def test_get_is_refused_without_an_existing_shard_and_number(
    orders: Stream, shard_id: Any, number: Any, named: str
) -> None:
    with pytest.raises(StreamError, match=named):
        orders.get(shard_id, number)


def test_positions_are_read_from_the_shards_by_default(context: Context, orders: Stream) -> None:
    clock = context.account.clock
    assert isinstance(clock, FakeClock)
    consumer = orders.create_consumer("audit")
    orders.put("key", b"first")
    arrived = clock.now()
    with consumer:
        record = consumer.next()
        assert record is not None
        assert record.ack()
    clock.advance(MINUTE)
    orders.put("key", b"second")
    clock.advance(MINUTE)
    (shard,) = consumer.info().shards
    assert (shard.handled_to, shard.lag) == (arrived, MINUTE)
    assert consumer.info(cached=True).lag == MINUTE
    assert consumer.info(positions=False).lag is None
    with consumer:
        assert [one.ack() for one in consumer.fetch(1)] == [True]
    assert consumer.info().lag == timedelta(0)
