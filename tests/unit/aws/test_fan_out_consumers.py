"""The fan-out consumer that all of a stream's readers share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

from botocore.exceptions import ConnectTimeoutError
from sublet.aws.kinesis.fan_out_consumers import NamedConsumer
from sublet.ports import Unanswered
from sublet.testing.memory import FakeClock, MemoryLog

ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"


class OutOfReach:
    """Kinesis does not answer; the first call fails only when `fails` is set."""

    def __init__(self) -> None:
        self.calls, self.called, self.fails = 0, Event(), Event()

    def describe_stream_consumer(self, **_: Any) -> Any:
        self.calls += 1
        self.called.set()
        assert self.fails.wait(20)
        raise ConnectTimeoutError(endpoint_url="https://kinesis")


class Noticing(FakeClock):
    """Says when each reader has asked it, and the first one twice: before and after it had the lock."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.all_asked = 0, Event()

    def steady(self) -> Any:
        self.asked += 1
        if self.asked > READERS:
            self.all_asked.set()
        return super().steady()


READERS = 5


def test_readers_that_have_waited_for_a_look_in_vain_do_not_look_one_after_the_other() -> None:
    """Each look may last for half a minute, and a reader that waits for its turn does not notice that it is to stop."""
    client, clock = OutOfReach(), Noticing()
    consumer = NamedConsumer(client, ARN, "audit", clock, MemoryLog(), may_register=False)
    with ThreadPoolExecutor(READERS) as readers:
        answers = [readers.submit(consumer.arn) for _ in range(READERS)]
        assert client.called.wait(20)
        assert clock.all_asked.wait(20)
        client.fails.set()
        assert all(isinstance(answer.result(), Unanswered) for answer in answers)
    assert client.calls == 1
    clock.advance(timedelta(seconds=1))
    assert isinstance(consumer.arn(), Unanswered)
    assert client.calls == 2, "a later reader looks again"
