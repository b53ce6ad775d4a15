"""A producer's decisions against a stream in memory that is resharded, refuses records and loses answers, on a clock of
its own."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.putting.outbox import ProducerRules, QueuedRecord
from sublet.decisions.putting.placing import RecordPlacing
from sublet.decisions.putting.producing import ProducerState, PutCall
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import PutRefused, StreamRecord
from sublet.protocol.shard import creation_order
from sublet.protocol.shard_map import ShardMap
from sublet.protocol.stream_info import PutRecord
from sublet.testing.memory import FakeClock, MemoryStream

THROTTLED = PutRefused("ProvisionedThroughputExceededException", "Rate exceeded", passes=True)
LOST = PutRefused("NoAnswer", "the answer was lost", passes=True)


def queued(data: bytes, key: str | None, at: datetime, explicit: str | None = None) -> QueuedRecord:
    return QueuedRecord.of(data, key, explicit, arrived_at=at, epoch=0, ticket=data)


def records_of(stream: MemoryStream, shard_id: str) -> list[StreamRecord]:
    records: list[StreamRecord] = []
    iterator: str | None = stream.open(shard_id, ReadPosition(IteratorType.TRIM_HORIZON))
    while iterator is not None:
        reply = stream.poll(iterator, 10_000)
        assert not isinstance(reply, PollRefusal)
        records += reply.page.records
        iterator = reply.next_iterator if reply.page.records else None
    return records


def delivered(stream: MemoryStream) -> list[bytes]:
    """What a KCL consumer hands over: shard by shard, parents first, with the hash range rule."""
    return [
        record.data
        for shard in sorted(stream.list_shards(), key=creation_order)
        for record in deaggregate(records_of(stream, shard.shard_id), KeysInside(shard.hash_key_range)).user_records
    ]


def reshard(stream: MemoryStream, chance: random.Random) -> None:
    shards = sorted((s for s in stream.list_shards() if s.is_open), key=lambda s: s.hash_key_range.starting)
    if len(shards) > 1 and chance.random() < 0.5:
        index = chance.randrange(len(shards) - 1)
        stream.merge(shards[index].shard_id, shards[index + 1].shard_id)
    else:
        stream.split(chance.choice(shards).shard_id)


def numbers_by_key(data: Sequence[bytes]) -> dict[str, list[int]]:
    """Of records whose data is `key:number:...`."""
    numbers = defaultdict(list)
    for one in data:
        key, number, _ = one.decode().split(":")
        numbers[key].append(int(number))
    return numbers


@dataclass
class ProducingWorld:
    """`refuses`, `loses`: how likely a record is refused, and an answer lost. `lists_late`: how long a listing of the
    shards lags behind. `recreates`: how often the stream is deleted and created again, with any number of shards."""

    rules: ProducerRules
    chance: random.Random
    shards: int = 4
    refuses: float = 0.0
    loses: float = 0.0
    reshards: int = 0
    recreates: int = 0
    lists_late: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    outcomes: dict[bytes, PutRecord | Exception] = field(default_factory=dict)
    largest_call: int = 0
    answer: Callable[[PutCall], Exception | None] = lambda _: None
    numbered: Callable[[PutRecord], PutRecord] = lambda at: at

    def __post_init__(self) -> None:
        self.streams = [MemoryStream(self.shards, clock=self.clock)]
        self.producing = ProducerState(self.rules, self.chance)
        self._calls: list[tuple[datetime, PutCall]] = []
        self._listed = self.stream.list_shards()
        self._place_at: datetime | None = None

    @property
    def stream(self) -> MemoryStream:
        """The last of the streams that have had this name."""
        return self.streams[-1]

    def _recreate(self) -> None:
        self.clock.advance(timedelta(seconds=2))
        self.streams.append(MemoryStream(self.chance.randrange(1, 6), clock=self.clock))
        self._listed = self.stream.list_shards()

    def run(self, arrivals: Sequence[Sequence[QueuedRecord]]) -> None:
        """Lets them arrive, some each 10 ms, and goes on until all are settled."""
        waiting = [list(some) for some in arrivals]
        for step in range(200_000):
            now = self.clock.advance(timedelta(milliseconds=1))
            if waiting and step % 10 == 0:
                records = waiting.pop(0)
                for record in records:
                    record.arrived_at = now
                self.producing.add(records, now)
            if self.reshards and self.chance.random() < 0.02:
                self.reshards -= 1
                reshard(self.stream, self.chance)
            if self.recreates and self.chance.random() < 0.005:
                self.recreates -= 1
                self._recreate()
            self._settle_due(now)
            if self._plan(now) and not waiting:
                return
        raise AssertionError("it does not end")

    def _plan(self, now: datetime) -> bool:
        """Whether nothing is left."""
        plan = self.producing.plan(now)
        self._tell()
        for call in plan.calls:
            self._calls.append((now + timedelta(milliseconds=self.chance.randrange(1, 30)), call))
        if plan.wants_placing and self._place_at is None:
            self._place_at = now + timedelta(milliseconds=self.chance.randrange(1, 50))
        if self._place_at is not None and self._place_at <= now:
            self._place_at = None
            shown = self._listed if self.lists_late and self.chance.random() < 0.5 else self.stream.list_shards()
            self._listed = self.stream.list_shards()
            self.producing.place(RecordPlacing(ShardMap.of(shown)), now)
            self._tell()
        assert plan.look_again_at is None or plan.look_again_at > now or plan.calls
        return self.producing.is_settled(self.producing.epoch)

    def _tell(self) -> None:
        told = self.producing.take_settled()
        for settled in told:
            for record in settled.user_records:
                assert record.data not in self.outcomes, "settled twice"
                self.outcomes[record.data] = settled.outcome
        self.producing.told(told)

    def _settle_due(self, now: datetime) -> None:
        due = [each for each in self._calls if each[0] <= now]
        self._calls = [each for each in self._calls if each[0] > now]
        for _, call in due:
            fault = self.answer(call)
            answers = fault or [self._put(call, index) for index in range(len(call.entries))]
            if not fault and self.chance.random() < self.loses:
                answers = [LOST] * len(call.entries)
            self.producing.settle(call, answers, now)

    def _put(self, call: PutCall, index: int) -> PutRecord | PutRefused:
        record = call.entries[index].stream_record()
        self.largest_call = max(self.largest_call, len(call.entries))
        assert record.size <= call.entries[index].size
        if self.chance.random() < self.refuses:
            return THROTTLED
        explicit = None if record.explicit_hash_key is None else int(record.explicit_hash_key)
        return self.numbered(self.stream.put_record(record.partition_key, record.data, explicit))
