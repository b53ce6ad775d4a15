"""The network between the functions and one emulator: a proxy that is mostly good, and bad for a few seconds now and
then."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from benchmarks.counting_proxy import Connection, Reply, serving
from tests.chaos.plan import Trouble
from tests.chaos.subscriptions import SUBSCRIBE, pass_on

DELAYS = (0.2, 6.0)
"""Seconds; DynamoDB's client gives up after 5."""

SHARE = 0.7
"""Of the requests in a burst; the rest gets through, so that things also fail halfway."""

WAITED_FOR = 9.0
"""Seconds. Kinesis' client gives up after 10."""

GOOD_UNTIL = float("-inf")


@dataclass
class Network:
    """`hit` counts requests and events of subscriptions by what was done to them, `refused` failed conditional writes
    of DynamoDB by operation, `subscriptions` those that began.
    """

    upstream: str
    chance: Random
    url: str = ""
    trouble: Trouble = Trouble.DELAY
    bad_until: float = GOOD_UNTIL
    share: float = SHARE
    delays: tuple[float, float] = DELAYS
    requests: int = 0
    subscriptions: int = 0
    hit: Counter[Trouble] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def burst(self, trouble: Trouble, seconds: float) -> None:
        """From now on, for that long."""
        self.trouble, self.bad_until = trouble, time.monotonic() + seconds

    def calm(self) -> None:
        self.bad_until = GOOD_UNTIL

    def strike(self, *, is_request: bool = True) -> Trouble | None:
        """What happens to the next request, or to the next event of a subscription."""
        with self._lock:
            self.requests += is_request
            if time.monotonic() >= self.bad_until or self.chance.random() >= self.share:
                return None
            self.hit[self.trouble] += 1
            return self.trouble

    def delay(self) -> float:
        with self._lock:
            return self.chance.uniform(*self.delays)

    def subscribed(self) -> None:
        with self._lock:
            self.subscriptions += 1

    def note(self, operation: str, reply: Reply) -> None:
        if reply.status == 400 and b"ConditionalCheckFailedException" in reply.content:
            with self._lock:
                self.refused[operation] += 1


@contextmanager
def network(
    upstream: str, seed: str, lost: Callable[[str, bytes], object] = lambda _operation, _body: None
) -> Iterator[Network]:
    """On a free loopback port, until the block ends. `lost` gets each request whose answer the client may not have."""
    between = Network(upstream, Random(seed))

    def respond(connection: Connection, operation: str, body: bytes) -> None:
        began = time.monotonic()
        trouble = between.strike()
        if trouble is Trouble.LOSE_REQUEST:
            return connection.hang_up()
        if trouble is Trouble.THROTTLE:
            return connection.answer(throttled(connection.headers.get("content-type", "")))
        if trouble is Trouble.DELAY:
            time.sleep(between.delay())
        if operation == SUBSCRIBE:
            is_lost = trouble in (Trouble.LOSE_REPLY, Trouble.TRUNCATE)
            return pass_on(connection, upstream, body, between, is_lost=is_lost)
        reply = connection.forward(upstream, body)
        between.note(operation, reply)
        if trouble in (Trouble.LOSE_REPLY, Trouble.TRUNCATE) or time.monotonic() - began > WAITED_FOR:
            lost(operation, body)
        if trouble is Trouble.LOSE_REPLY:
            return connection.hang_up()
        if trouble is Trouble.TRUNCATE:
            connection.begin_answer(reply)
            connection.wfile.write(reply.content[: len(reply.content) // 2])
            return connection.hang_up()
        return connection.answer(reply)

    with serving(respond) as url:
        between.url = url
        yield between


def throttled(content_type: str) -> Reply:
    """In the form of DynamoDB and Kinesis; Step Functions' client understands it too."""
    said = {"__type": "ThrottlingException", "message": "Rate exceeded"}
    headers = [("content-type", content_type), ("x-amzn-requestid", "chaos")]
    return Reply(400, headers, json.dumps(said).encode())
