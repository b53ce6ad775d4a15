"""Consumers that are pushed to, on the embedded AWS: with a handler, pulled from, with asyncio; and the
registration.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest
from sublet import Batch, Consumer, aio
from sublet.aws.kinesis.fan_out_consumers import registered
from sublet.command_line.run import reading_as
from sublet.errors import SettingsError
from sublet.settings import Mode, Reading, Settings
from sublet.system.threads import ThreadTasks

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import Fault
from tests.contract.subscriptions import Consumed, consumed
from tests.e2e.deliveries import wait_until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


@pytest.fixture
def stream(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consumed]:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with consumed(embedded_aws) as stream:
        yield stream


def options(stream: Consumed) -> dict[str, Any]:
    return {
        "reading": Reading.FAN_OUT,
        "fan_out_consumer": stream.consumer_arn,
        "failover_time": timedelta(seconds=6),
        "heartbeat_interval": timedelta(seconds=1),
    }


def test_a_handler_gets_every_record_once_and_in_order(stream: Consumed) -> None:
    """Through subscriptions of a second, a cut one, and a split; until there have been more than three."""
    stream.fan_out.takes(lasts=timedelta(seconds=1), again_after=timedelta(0))
    stream.fan_out.plant(Fault("cut", at=3))
    came: list[bytes] = []
    ended = threading.Event()

    def handle(batch: Batch) -> None:
        came.extend(record.data for record in batch.records)
        if b"last" in came:
            ended.set()

    consumer = Consumer(stream.stream, stream.stream, handle, **options(stream))
    runs = threading.Thread(target=consumer.run)
    runs.start()
    stream.put(b"first")
    while b"first" not in came:
        time.sleep(0.05)
    number, until = 0, time.monotonic() + 60
    while number < 40 or len(stream.fan_out.calls()) <= 3:
        assert time.monotonic() < until, stream.fan_out.calls()
        stream.put(b"%d" % number)
        time.sleep(0.05)
        number += 1
        if number == 21:
            stream.client.split_shard(
                StreamName=stream.stream, ShardToSplit=stream.shards[0], NewStartingHashKey=str(2**127)
            )
    stream.put(b"last")
    assert ended.wait(60)
    consumer.stop()
    runs.join(60)
    assert len(came) == len(set(came)) == number + 2


def test_pulling_and_asyncio(stream: Consumed) -> None:
    for number in range(4):
        stream.put(b"%d" % number)
    consumer = Consumer(stream.stream, stream.stream, **options(stream))
    consumer.create()
    with consumer:
        first, second = consumer.fetch(2)
        assert (first.data, second.data) == (b"0", b"1")
        assert first.ack()
        assert second.ack()

    async def rest() -> list[bytes]:
        async with aio.Consumer(stream.stream, stream.stream, **options(stream)) as consumer:
            return [record.data async for record in consumer.fetch(2)]

    assert asyncio.run(rest()) == [b"2", b"3"]
    assert "subscribed" in [call.answer for call in stream.fan_out.calls()]


def register(stream: Consumed, name: str) -> None:
    """Waits while five are being created, which is as many as there may be at once."""
    for _ in range(600):
        try:
            stream.client.register_stream_consumer(StreamARN=stream.stream_arn, ConsumerName=name)
        except stream.client.exceptions.LimitExceededException:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"{name} could not be registered in a minute")


def test_consumer_is_registered_once_and_shards_are_polled_without_room_for_it(
    stream: Consumed, tmp_path: Path
) -> None:
    stop = ThreadTasks().signal()
    new = registered(stream.client, stream.stream_arn, "audit", stop)
    again = registered(stream.client, stream.stream_arn, "audit", stop)
    assert new is not None
    assert again is not None
    assert (new.is_new, again.is_new, new.arn) == (True, False, again.arn)
    for number in range(18):
        register(stream, f"other-{number}")
    assert registered(stream.client, stream.stream_arn, "one-too-many", stop) is None
    stream.put(b"one")
    (tmp_path / "handling.py").write_text("def handle(batch):\n    open('came', 'w').close()\n")
    command = f"-m sublet run --application {stream.stream} --stream {stream.stream} --handler handling:handle"
    command += " --register one-too-many --start-position TRIM_HORIZON"
    said = tmp_path / "said"
    with said.open("wb") as output, running_process(command.split(), output, tmp_path):
        wait_until((tmp_path / "came").exists, 30, said.read_text)
        wait_until(lambda: "fan_out_polled_instead" in said.read_text(), 30, said.read_text)
    assert "cannot have more fan-out consumers" in said.read_text()
    assert "one-too-many" in said.read_text()
    assert stream.fan_out.calls() == []


@contextmanager
def running_process(arguments: Sequence[str], output: IO[bytes], folder: Path) -> Iterator[None]:
    """A Python in this folder, ended with the block."""
    process = subprocess.Popen([sys.executable, *arguments], cwd=folder, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def test_register_is_refused_without_continuous_mode_a_name_or_beside_an_arn() -> None:
    plain = Settings(application="orders-audit", stream="orders", mode=Mode.CONTINUOUS)
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/orders/consumer/audit:1"
    assert reading_as(plain, "audit", arn).fan_out_consumer == arn
    with pytest.raises(SettingsError, match="continuous"):
        reading_as(Settings(application="orders-audit", stream="orders"), "audit")
    with pytest.raises(SettingsError, match="consumer's name"):
        reading_as(plain, "an audit")
    with pytest.raises(SettingsError, match="not allowed with --register"):
        reading_as(reading_as(plain, "audit", arn), "audit")
