"""The producer: a thread that puts every flight on the stream with `sublet.Producer`, in the order of its partition
key, through any reshard.

One key in ten is put as plain records, the others in aggregates, as the KPL does it.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from sublet import Producer, PutRecord
from sublet.ports.account import Account

from demo.flights import Flight

AHEAD = 3_000
"""How many events may be on their way: enough for a full aggregate of each shard, which holds about 350 flights."""

PLAIN_KEYS = 10
"""One in this many partition keys is put as plain records."""

PATIENCE = 3.0
"""Seconds to wait for a thread that was asked to end: after Ctrl-C its request may hang in an emulator that is being
ended."""


class Event(NamedTuple):
    partition_key: str
    data: bytes


def as_events(flights: Iterable[Flight]) -> Iterator[Event]:
    return (Event(flight.partition_key, flight.event()) for flight in flights)


@dataclass(frozen=True, slots=True)
class Put:
    """Events in the stream, `by_shard` and by kind; and events whose aggregate went to the wrong shard."""

    by_shard: Counter[str]
    aggregated: int = 0
    plain: int = 0
    sent_again: int = 0


class FlightProducer:
    """Puts everything in its own thread. Other threads may read `put`; `failure` is set if it gave up."""

    def __init__(self, account: Account, stream: str, events: Iterator[Event]) -> None:
        self.failure: Exception | None = None
        self._aggregating = Producer(stream, account=account)
        self._plain = Producer(stream, account=account, aggregation_enabled=False)
        self._events = events
        self._by_shard: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the current event, without waiting long for it."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)

    @property
    def is_done(self) -> bool:
        return self._thread.ident is not None and not self._thread.is_alive()

    @property
    def put(self) -> Put:
        aggregating, plain = self._aggregating.produced, self._plain.produced
        with self._lock:
            by_shard = self._by_shard.copy()
        return Put(
            by_shard,
            aggregating.aggregated,
            plain.user_records + aggregating.user_records - aggregating.aggregated,
            aggregating.sent_again,
        )

    def _run(self) -> None:
        try:
            with self._aggregating, self._plain:
                self._put_all()
        except Exception as failure:  # noqa: BLE001 -- the main thread must see any failure
            self.failure = failure

    def _put_all(self) -> None:
        on_their_way: deque[Future[PutRecord]] = deque()
        for key, data in self._events:
            if self._stop.is_set():
                return
            producer = self._aggregating if crc32(key.encode()) % PLAIN_KEYS else self._plain
            future: Future[PutRecord] = producer.put(key, data)
            future.add_done_callback(self._count)
            on_their_way.append(future)
            if len(on_their_way) > AHEAD:
                on_their_way.popleft().result()

    def _count(self, put: Future[Any]) -> None:
        if put.exception() is None:
            with self._lock:
                self._by_shard[put.result().shard_id] += 1
