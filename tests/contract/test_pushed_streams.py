"""Consumers that are pushed to from several streams, on the embedded AWS: each stream has a fan-out consumer of its
own.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sublet import Batch, Consumer
from sublet.aws.kinesis.fan_out_consumers import NamedConsumer
from sublet.command_line.run import reading_as
from sublet.decisions.session.push import PushEnd
from sublet.operate.cli.monitor.streams import consumer_left
from sublet.ports import Unanswered
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Mode, Reading, Settings, StreamChoice
from sublet.testing.memory import FakeClock, MemoryLog

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import FanOut
from tests.contract.subscriptions import Consumed, consumed, eventually, registered
from tests.e2e.deliveries import wait_until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

NAME = "audit"


@pytest.fixture
def two(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Consumed, Consumed]]:
    """Two streams, each with a consumer `reader`, which belongs to another application."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with consumed(embedded_aws) as first, consumed(embedded_aws, shards=2) as second:
        yield first, second


@pytest.fixture
def one(embedded_aws: EmbeddedAws) -> Iterator[Consumed]:
    with consumed(embedded_aws) as stream:
        yield stream


def named_on(stream: Consumed) -> set[str]:
    """The names that are taken, also by what is being deleted."""
    listed = stream.client.list_stream_consumers(StreamARN=stream.stream_arn)["Consumers"]
    return {each["ConsumerName"] for each in listed}


def consumers_of(stream: Consumed) -> dict[str, str]:
    """The ARNs of those that are not being deleted, by name."""
    listed = stream.client.list_stream_consumers(StreamARN=stream.stream_arn)["Consumers"]
    return {each["ConsumerName"]: each["ConsumerARN"] for each in listed if each["ConsumerStatus"] != "DELETING"}


class Came:
    """What the handler got, by stream and key, in order."""

    def __init__(self) -> None:
        self.data: dict[tuple[str, str], list[bytes]] = defaultdict(list)

    def handle(self, batch: Batch) -> None:
        stream = str(batch.stream)
        for record in batch.records:
            self.data[stream, str(record.partition_key)].append(record.data)

    @property
    def count(self) -> int:
        return sum(map(len, self.data.values()))


def test_stream_that_loses_its_consumer_is_polled_beside_a_pushed_one(
    two: tuple[Consumed, Consumed], caplog: pytest.LogCaptureFixture
) -> None:
    """The other stream stays pushed. Nothing is lost or repeated, each key's records come in order, and what an
    operator has deregistered is not registered again.
    """
    came = Came()
    streams = ",".join(each.stream for each in two)
    consumer = Consumer(
        NAME + two[0].stream,
        streams=streams,
        handler=came.handle,
        reading=Reading.FAN_OUT,
        fan_out_consumer=NAME,
        register_fan_out=True,
        failover_time=timedelta(seconds=6),
        heartbeat_interval=timedelta(seconds=1),
    )
    runs = threading.Thread(target=consumer.run)
    runs.start()
    put: dict[tuple[str, str], list[bytes]] = defaultdict(list)

    def produce(many: int) -> None:
        for number in range(many):
            for stream in two:
                for key in ("a", "b", "c"):
                    data = b"%d of %d" % (number, len(put[stream.stream, key]))
                    stream.client.put_record(StreamName=stream.stream, Data=data, PartitionKey=key)
                    put[stream.stream, key].append(data)

    def all_came() -> bool:
        return came.count >= sum(map(len, put.values()))

    try:
        produce(5)
        wait_until(all_came, 30, lambda: str(came.data))
        first, _ = two
        wait_until(lambda: all(_subscribed(stream) for stream in two), 30, lambda: "not subscribed")
        lost = consumers_of(first)[NAME]
        first.client.deregister_stream_consumer(ConsumerARN=lost)
        produce(5)
        wait_until(all_came, 30, lambda: str(came.data))
    finally:
        consumer.stop()
        runs.join(30)
    assert came.data == put
    assert NAME not in consumers_of(first)
    polled = [line.message for line in caplog.records if "polled instead" in line.message]
    assert [first.stream in line for line in polled] == [True], "the stream's one shard, once"


def _subscribed(stream: Consumed) -> list[str]:
    arn = consumers_of(stream).get(NAME)
    calls = FanOut(stream.aws, arn).calls() if arn is not None else []
    return [call.shard_id for call in calls if call.answer == "subscribed"]


class Found:
    """A NamedConsumer on a memory clock."""

    def __init__(self, stream: Consumed, *, may_register: bool) -> None:
        self.clock, self.log = FakeClock(), MemoryLog()
        self.consumer = NamedConsumer(
            stream.client, stream.stream_arn, NAME, self.clock, self.log, may_register=may_register
        )

    def soon(self) -> str | PushEnd | Unanswered:
        """After its creation, for which real time passes."""
        until = time.monotonic() + 20
        while (answer := self.consumer.arn()) is PushEnd.IN_USE and time.monotonic() < until:
            self.clock.advance(timedelta(seconds=1))
            time.sleep(0.05)
        return answer


def test_missing_consumer_is_found_once_registered_by_somebody_else(one: Consumed) -> None:
    found = Found(one, may_register=False)
    assert found.consumer.arn() is PushEnd.NO_CONSUMER
    arn = registered(one.client, one.stream_arn, NAME)
    assert found.consumer.arn() is PushEnd.NO_CONSUMER, "looked for a moment ago"
    found.clock.advance(timedelta(minutes=1))
    assert found.soon() == arn


def test_consumer_is_registered_once_and_logged(one: Consumed) -> None:
    found = Found(one, may_register=True)
    arn = found.soon()
    assert arn == consumers_of(one)[NAME]
    (line,) = found.log.lines
    assert str(arn) in str(line.fields["deregister"])
    another = Found(one, may_register=True)
    assert another.soon() == arn
    assert another.log.lines == []


def test_deregistered_consumer_is_found_again_without_registering_it(one: Consumed) -> None:
    found = Found(one, may_register=True)
    arn = found.soon()
    assert isinstance(arn, str)
    one.client.deregister_stream_consumer(ConsumerARN=arn)
    eventually(lambda: NAME not in named_on(one))
    found.consumer.lost(arn)
    assert found.consumer.arn() is PushEnd.NO_CONSUMER
    again = registered(one.client, one.stream_arn, NAME)
    found.clock.advance(timedelta(minutes=1))
    assert found.soon() == again


def test_a_stream_without_room_is_polled_and_this_is_logged(one: Consumed) -> None:
    for number in range(19):
        registered(one.client, one.stream_arn, f"other-{number}")
    found = Found(one, may_register=True)
    assert found.soon() is PushEnd.NO_CONSUMER
    (line,) = found.log.lines
    assert "as many fan-out consumers as it may have" in line.message


def test_a_consumer_that_is_left_on_a_stream_is_named(two: tuple[Consumed, Consumed]) -> None:
    """As `sublet streams remove` says it: its stream is not read any more, and it goes on costing."""
    stream, _ = two
    created = stream.client.describe_stream_summary(StreamName=stream.stream)["StreamDescriptionSummary"]
    key = StreamKey.of(StreamIdentity(stream.stream_arn, created["StreamCreationTimestamp"]))
    assert str(consumer_left(key, "reader")).endswith(f"--consumer-arn {stream.consumer_arn}")
    assert consumer_left(key, "another") is None
    assert consumer_left(StreamKey(key.account, "never-there", key.epoch), "reader") is None
    earlier = StreamKey(key.account, key.stream, key.epoch - 60)
    assert consumer_left(earlier, "reader") is None, "the consumer is a newer stream's, and in use"


def test_register_sets_the_consumers_name_with_several_streams() -> None:
    plain = Settings(application="orders-audit", streams=StreamChoice.parse("orders,audit-*"), mode=Mode.CONTINUOUS)
    settings: Any = reading_as(plain, NAME)
    assert (settings.reading, settings.fan_out_name, settings.register_fan_out) == (
        Reading.FAN_OUT,
        NAME,
        True,
    )
