"""A producer's promises over real threads: in memory, and over the embedded AWS through a bad network."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import sublet.aio
from sublet import Producer, PutRecord, RecordRefused, RecordsNotPut, StreamNotFound, connect
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.ports.account import Account
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import Page, UserRecord
from sublet.protocol.shard import Shard
from sublet.testing.memory import MemoryAccount

from tests.chaos.network import Network, network
from tests.chaos.plan import Trouble

ORDERS = 3_000
KEYS = 30


@dataclass
class ProducerBench:
    account: Account
    stream: str
    split: Callable[[str], object]
    merge: Callable[[str, str], object]
    between: Network | None = None

    def producer(self, **options: Any) -> Producer:
        return Producer(self.stream, account=self.account, **options)

    def open_shards(self) -> list[Shard]:
        listed = self.account.reading(self.stream).list_shards()
        return sorted((one for one in listed if one.is_open), key=lambda one: one.hash_key_range)

    def reshard(self) -> None:
        """Splits one and merges two, anywhere."""
        self.split(self.open_shards()[0].shard_id)
        shards = self.open_shards()
        self.merge(shards[-2].shard_id, shards[-1].shard_id)

    def delivered(self) -> list[UserRecord]:
        """What a KCL consumer hands over: shard by shard, parents first, with the hash range rule."""
        reading = self.account.reading(self.stream)
        found: list[UserRecord] = []
        for shard in sorted(reading.list_shards(), key=lambda one: one.shard_id):
            reader = reading.reader(shard.shard_id, ReadPosition(IteratorType.TRIM_HORIZON))
            inside = KeysInside(shard.hash_key_range)
            while True:
                page = reader.read(10_000)
                if not isinstance(page, Page):
                    continue
                found += deaggregate(page.records, inside).user_records
                if page.is_shard_end or not (page.records or page.millis_behind_latest):
                    break
        return found


@pytest.fixture(params=["memory", pytest.param("embedded", marks=[pytest.mark.emulator, pytest.mark.slow])])
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProducerBench]:
    """A stream of three shards."""
    name = f"produced-{uuid.uuid4().hex[:8]}"
    if request.param == "memory":
        account = MemoryAccount()
        account.create(name, 3)
        stream = account.at(name)
        yield ProducerBench(account, name, stream.split, stream.merge)
        return
    aws = request.getfixturevalue("embedded_aws")
    for variable, value in aws.environment.items():
        monkeypatch.setenv(variable, value)
    client = aws.client("kinesis")
    client.create_stream(StreamName=name, ShardCount=3)
    active = client.get_waiter("stream_exists")
    active.wait(StreamName=name, WaiterConfig={"Delay": 1})
    upstream = aws.environment.get("AWS_ENDPOINT_URL_KINESIS") or aws.environment["AWS_ENDPOINT_URL"]
    with network(upstream, "producer") as between:
        for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS"):
            monkeypatch.setenv(variable, between.url)

        def split(shard_id: str) -> None:
            shard = next(one for one in made.open_shards() if one.shard_id == shard_id)
            middle = sum(shard.hash_key_range) // 2 + 1
            client.split_shard(StreamName=name, ShardToSplit=shard_id, NewStartingHashKey=str(middle))
            active.wait(StreamName=name, WaiterConfig={"Delay": 1})

        def merge(shard_id: str, adjacent: str) -> None:
            client.merge_shards(StreamName=name, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent)
            active.wait(StreamName=name, WaiterConfig={"Delay": 1})

        made = ProducerBench(connect().account, name, split, merge, between)
        yield made


def orders(count: int = ORDERS) -> list[tuple[str, bytes]]:
    chance, seen = Random(7), Counter[str]()
    made = []
    for _ in range(count):
        key = f"k{chance.randrange(KEYS)}"
        seen[key] += 1
        made.append((key, f"{key}:{seen[key]}:".encode().ljust(100, b".")))
    return made


def by_key(data: list[bytes]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in data:
        key, number, _ = one.decode().split(":")
        found.setdefault(key, []).append(int(number))
    return found


def data_of(records: list[UserRecord]) -> list[bytes]:
    return [record.data for record in records]


@pytest.mark.parametrize("aggregation_enabled", [True, False])
def test_record_is_stored_where_its_future_says_in_order_of_its_key(
    bench: ProducerBench, aggregation_enabled: bool
) -> None:
    made = orders(1_000)
    with bench.producer(aggregation_enabled=aggregation_enabled, record_max_buffered_time=0.02) as producer:
        futures = [producer.put(key, data) for key, data in made]
    found = bench.delivered()
    assert by_key(data_of(found)) == by_key([data for _, data in made])
    numbers = {record.data: record.sequence_number for record in found}
    assert all(
        future.result(0).sequence_number == numbers[data] for future, (_, data) in zip(futures, made, strict=True)
    )
    assert producer.produced.user_records == 1_000
    assert (producer.produced.stream_records < 100) is aggregation_enabled


def test_a_flush_does_not_wait_for_more_and_leaves_the_producer_open(bench: ProducerBench) -> None:
    with bench.producer(record_max_buffered_time=3_600) as producer:
        first = producer.put("a", b"1")
        producer.flush()
        assert first.done()
        assert isinstance(first.result(), PutRecord)
        producer.put("a", b"2")
    assert data_of(bench.delivered()) == [b"1", b"2"]


def test_reshards_lose_nothing_and_keep_each_key_in_order(bench: ProducerBench) -> None:
    made = orders()
    with bench.producer(record_max_buffered_time=0.02) as producer:
        for place, (key, data) in enumerate(made):
            if place in (ORDERS // 3, ORDERS // 2):
                bench.reshard()
            producer.put(key, data)
    assert by_key(data_of(bench.delivered())) == by_key([data for _, data in made])


def test_async_producer_stores_records_in_order_of_their_key(bench: ProducerBench) -> None:
    made = orders()

    async def produce() -> list[PutRecord]:
        async with sublet.aio.Producer(
            bench.stream, account=bench.account, record_max_buffered_time=0.02, max_buffered_bytes=10 * 2**20
        ) as producer:
            futures = [await producer.put(key, data) for key, data in made]
            await producer.flush()
            return [future.result() for future in futures]

    assert len(asyncio.run(produce())) == ORDERS
    assert by_key(data_of(bench.delivered())) == by_key([data for _, data in made])


@pytest.mark.parametrize("trouble", [Trouble.LOSE_REQUEST, Trouble.LOSE_REPLY, Trouble.THROTTLE])
def test_a_bad_network_loses_nothing(bench: ProducerBench, trouble: Trouble) -> None:
    """Half of all calls fail for a while. If answers are lost, records are repeated, but no key goes back."""
    if bench.between is None:
        pytest.skip("there is no network in memory")
    made = orders()
    bench.between.share = 0.5
    with bench.producer() as producer:
        bench.between.burst(trouble, 60.0)
        for place, (key, data) in enumerate(made):
            producer.put(key, data)
            if not place % 250:
                producer.flush()
        bench.between.calm()
    assert bench.between.hit[trouble]
    found = by_key(data_of(bench.delivered()))
    assert {key: list(dict.fromkeys(numbers)) for key, numbers in found.items()} == by_key([data for _, data in made])
    if trouble is not Trouble.LOSE_REPLY:
        assert sum(map(len, found.values())) == ORDERS


def test_a_record_that_is_too_large_fails_alone(bench: ProducerBench) -> None:
    with bench.producer() as producer:
        good, bad, later = (
            producer.put("a", b"1"),
            producer.put("a", bytes(3 * 2**19)),
            producer.put("a", b"2"),
        )
        with pytest.raises(RecordsNotPut, match=r"1 record was given up.*MaxRecordSizeInKiB is 1,024"):
            producer.flush()
        assert isinstance(bad.exception(), RecordRefused)
        assert isinstance(good.result(), PutRecord)
        assert isinstance(later.result(), PutRecord)
    assert data_of(bench.delivered()) == [b"1", b"2"]


def test_a_stream_that_is_not_there_is_named(bench: ProducerBench) -> None:
    with (
        pytest.raises((StreamNotFound, RecordsNotPut), match=r"StreamNotFound|no stream"),
        Producer("nowhere", account=bench.account) as producer,
    ):
        producer.put("a", b"1")


def test_large_records_go_where_the_stream_takes_them(bench: ProducerBench) -> None:
    sublet.Context(bench.account).update_stream(bench.stream, max_record_kib=10_240)
    large = bytes(2 * 2**20)
    with bench.producer(rate_limit=None) as producer:
        producer.put("a", large)
        producer.put("a", b"small")
    assert [len(data) for data in data_of(bench.delivered())] == [len(large), 5]


def test_an_explicit_hash_key_places_a_record(bench: ProducerBench) -> None:
    with bench.producer() as producer:
        puts = [
            producer.put("a", b"x", explicit_hash_key=str(shard.hash_key_range.starting))
            for shard in bench.open_shards()
        ]
    assert [put.result().shard_id for put in puts] == [shard.shard_id for shard in bench.open_shards()]


def test_no_two_open_shards_overlap(bench: ProducerBench) -> None:
    """What the others rely on."""
    bench.reshard()
    assert all(a.hash_key_range.ending + 1 == b.hash_key_range.starting for a, b in pairwise(bench.open_shards()))
