"""The demo's producer: what a consumer delivers of it is every event once, in the order of each key, through reshards."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from sublet.decisions.read_position import IteratorType, ReadPosition
from sublet.memory.stream import MemoryStream
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import creation_order

from demo.lanes import Entry, Event, Lanes, ShardMap

KEYS = 40


def events(count: int) -> list[Event]:
    """Each key's events say their place among them."""
    seen: Counter[str] = Counter()
    made = []
    for index in range(count):
        key = f"N{index * 7 % KEYS}"
        seen[key] += 1
        made.append(Event.of(key, f"{key}:{seen[key]}:".encode().ljust(120, b".")))
    return made


def put(stream: MemoryStream, entries: Sequence[Entry]) -> list[str | None]:
    """The shard that each entry went to, as PutRecords says."""
    landed: list[str | None] = []
    for entry in entries:
        place = entry.events[0].hash_key
        stream.put(entry.partition_key, entry.data(), place)
        landed.append(
            next(s.shard_id for s in stream.list_shards() if s.is_open and place in s.hash_key_range)
        )
    return landed


def produce(stream: MemoryStream, source: list[Event], chance: random.Random) -> Lanes:
    """Put everything; between a request's making and its putting, the stream may be resharded or refuse records."""
    lanes, left = Lanes(ShardMap(stream.list_shards())), iter(source)
    reshards = 0
    while True:
        lanes.fill(left)
        entries = lanes.next_request()
        if not entries:
            return lanes
        if chance.random() < 0.3 and reshards < 12:
            reshard(stream, chance)
            reshards += 1
        accepted = [chance.random() < 0.9 for _ in entries]
        places = iter(put(stream, [entry for entry, taken in zip(entries, accepted, strict=True) if taken]))
        landed = [next(places) if taken else None for taken in accepted]
        lanes.settle(entries, landed, ShardMap(stream.list_shards()))


def reshard(stream: MemoryStream, chance: random.Random) -> None:
    shards = sorted((s for s in stream.list_shards() if s.is_open), key=lambda s: s.hash_key_range.starting)
    if len(shards) > 1 and chance.random() < 0.5:
        index = chance.randrange(len(shards) - 1)
        stream.merge(shards[index].shard_id, shards[index + 1].shard_id)
    else:
        stream.split(chance.choice(shards).shard_id)


def delivered(stream: MemoryStream) -> list[bytes]:
    """What a KCL consumer hands over: shard by shard, parents first, with the hash range rule."""
    found = []
    for shard in sorted(stream.list_shards(), key=creation_order):
        iterator: str | None = stream.open(shard.shard_id, ReadPosition(IteratorType.TRIM_HORIZON))
        records: list[StreamRecord] = []
        while iterator is not None:
            reply = stream.poll(iterator, 10_000)
            assert not isinstance(reply, PollRefusal)
            page = reply.page
            records += page.records
            iterator = reply.next_iterator if page.records else None
        found += [r.data for r in deaggregate(records, KeysInside(shard.hash_key_range)).user_records]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_every_event_once_and_each_key_in_order_through_reshards_and_refusals(seed: int) -> None:
    print(f"seed {seed}")
    stream, source = MemoryStream(4), events(6_000)
    lanes = produce(stream, source, random.Random(seed))
    numbers = defaultdict(list)
    for data in delivered(stream):
        key, number, _ = data.decode().split(":")
        numbers[key].append(int(number))
    expected = Counter(event.partition_key for event in source)
    assert numbers == {key: list(range(1, count + 1)) for key, count in expected.items()}
    assert sum(lanes.put.values()) == len(source) == lanes.aggregated + lanes.plain


def test_an_aggregate_that_a_split_has_met_is_sent_again_and_the_consumer_drops_the_first() -> None:
    stream, source = MemoryStream(1), events(300)
    lanes = Lanes(ShardMap(stream.list_shards()))
    lanes.fill(iter(source))
    entries = lanes.next_request()
    stream.split(stream.list_shards()[0].shard_id)
    lanes.settle(entries, put(stream, entries), ShardMap(stream.list_shards()))
    assert lanes.sent_again == len(entries[0].events) > 0
    assert not lanes.put
    assert delivered(stream) == []


def test_an_aggregate_that_a_merge_has_met_is_kept() -> None:
    stream, source = MemoryStream(2), events(300)
    lanes = Lanes(ShardMap(stream.list_shards()))
    lanes.fill(iter(source))
    entries = lanes.next_request()
    stream.merge(*(shard.shard_id for shard in stream.list_shards()))
    lanes.settle(entries, put(stream, entries), ShardMap(stream.list_shards()))
    assert lanes.sent_again == 0
    assert len(delivered(stream)) == sum(lanes.put.values()) == sum(len(entry.events) for entry in entries)


def test_a_request_holds_plain_records_of_different_keys_only() -> None:
    lanes = Lanes(ShardMap(MemoryStream(2).list_shards()), aggregated=1_000)
    lanes.fill(iter(events(2_000)))
    entries = lanes.next_request()
    keys = [entry.partition_key for entry in entries]
    assert not any(entry.is_aggregate for entry in entries)
    assert len(set(keys)) == len(keys) > 1
