"""SubscribeToShard on a stream in memory, by the service's rules: five minutes, five seconds, and takeover."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.session.push import LASTS, TAKEN_OVER_AFTER, PushEnd
from sublet.decisions.session.read_position import ReadPosition
from sublet.ports import Clock, Pushed, ShardSubscription, Signal, Tasks
from sublet.testing.memory.stream import MemoryStream

EVENT_RECORDS_MAX = 500
EMPTY_EVENT_EVERY = timedelta(seconds=5)
"""How long a subscription without records is silent."""

LOOKS_EVERY = timedelta(milliseconds=50)
"""How often a waiting subscription looks whether something has been put."""


@dataclass
class MemoryFanOut:
    """The Pushes port: one registered consumer of one stream. Its processes share it."""

    stream: MemoryStream
    clock: Clock
    tasks: Tasks
    is_registered: bool = True
    records_max: int = EVENT_RECORDS_MAX
    looks_every: timedelta = LOOKS_EVERY
    again_after: timedelta = TAKEN_OVER_AFTER
    empty_event_every: timedelta = EMPTY_EVENT_EVERY
    _latest: dict[str, MemorySubscription] = field(default_factory=dict)
    _reached: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """How far in the shard's time an event had come, by shard and continuation."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd:
        with self._lock:
            if not self.is_registered:
                return PushEnd.NO_CONSUMER
            iterator = self._iterator(shard_id, position)
            now, old = self.clock.steady(), self._latest.get(shard_id)
            if old is not None and now - old.since < self.again_after:
                return PushEnd.IN_USE
            new = self._latest[shard_id] = MemorySubscription(self, shard_id, iterator, now, self.tasks.signal())
            return new

    def is_latest(self, subscription: MemorySubscription) -> bool:
        with self._lock:
            return self._latest.get(subscription.shard_id) is subscription

    def next_event(self, shard_id: str, iterator: str) -> tuple[Pushed, str | None]:
        """The event, and the iterator after it; None at the shard's end."""
        with self._lock:
            page, iterator_after = self.stream.pushed(iterator, self.records_max)
            if iterator_after is None:
                return Pushed(page._replace(is_shard_end=False, answered_at=None), None), None
            continuation = self.stream.continuation(iterator_after)
            self._reached[(shard_id, continuation)] = datetime.fromisoformat(iterator_after.split(" ")[3])
            return Pushed(page._replace(answered_at=None), continuation), iterator_after

    def _iterator(self, shard_id: str, position: ReadPosition) -> str:
        reached = self._reached.get((shard_id, position.sequence_number or ""))
        if reached is not None:
            return self.stream.resumed(shard_id, position, reached)
        return self.stream.open(shard_id, position)


@dataclass(eq=False)
class MemorySubscription:
    """The ShardSubscription port. Nothing is sent ahead: an event is made when it is taken."""

    consumer: MemoryFanOut
    shard_id: str
    iterator: str | None
    since: datetime
    cut: Signal
    _sent_at: datetime | None = None

    def wait(self, longest: timedelta) -> bool:
        clock = self.consumer.clock
        over = clock.steady() + longest
        while not self._has_come():
            left = over - clock.steady()
            if left <= timedelta(0):
                return False
            self.cut.wait(min(left, self.consumer.looks_every))
        return True

    def next(self) -> Pushed | PushEnd:
        if (end := self._end()) is not None:
            return end
        assert self.iterator is not None, "nothing is read after the shard's end"
        event, self.iterator = self.consumer.next_event(self.shard_id, self.iterator)
        self._sent_at = self.consumer.clock.steady()
        return event

    @property
    def has_more(self) -> bool:
        return self._end() is None and self._has_records()

    def interrupt(self) -> None:
        self.cut.set()

    def close(self) -> None:
        self.cut.set()

    def _has_come(self) -> bool:
        return self._end() is not None or self._is_empty_event_due() or self._has_records()

    def _is_empty_event_due(self) -> bool:
        quiet_for = self.consumer.empty_event_every
        return self._sent_at is None or self.consumer.clock.steady() - self._sent_at >= quiet_for

    def _has_records(self) -> bool:
        """Whether there are records, the shard's end, or a stretch without records that has to be walked."""
        if self.iterator is None:
            return False
        page, _ = self.consumer.stream.pushed(self.iterator, 1)
        return bool(page.records) or page.is_shard_end or page.millis_behind_latest > 0

    def _end(self) -> PushEnd | None:
        if self.cut.is_set():
            return PushEnd.CUT
        if not self.consumer.is_registered:
            return PushEnd.NO_CONSUMER
        if not self.consumer.is_latest(self):
            return PushEnd.TAKEN_OVER
        is_over = self.iterator is None or self.consumer.clock.steady() - self.since >= LASTS
        return PushEnd.LAPSED if is_over else None
