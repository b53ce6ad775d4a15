"""The SketchStore port's promises, for both implementations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.sightings import DATA, KEY, DynamoDbSightingStore
from sublet.aws.tables.sketch_store import HOT, DynamoDbSketchStore
from sublet.decisions.load.sketch import PeakSecond, ShardSketch
from sublet.decisions.load.sketch_places import PLACES, WARM, fresh
from sublet.decisions.manager.liveness import Sighting
from sublet.errors import LeaseTableNotFound
from sublet.ports import SketchStore
from sublet.testing.memory.stores import MemorySketchStore

from tests.contract.dynamodb_tables import EMULATORS, emulated_dynamodb, sightings_table
from tests.doubles.traffic import NOW, Traffic, sketch_of


@pytest.fixture(params=["memory", *EMULATORS])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SketchStore:
    if request.param == "memory":
        return MemorySketchStore()
    return over_dynamodb(emulated_dynamodb(request, monkeypatch))


def over_dynamodb(client: Any, *, with_names: bool = False) -> DynamoDbSketchStore:
    return DynamoDbSketchStore(lambda: client, sightings_table(client), with_names=with_names)


def hot(shard_id: str, heat: float = 0.9, minutes: int = 0) -> ShardSketch:
    sketch = sketch_of(shard_id, [Traffic("anna@example.com", 5, 100)], seconds=1)
    since = NOW + timedelta(minutes=minutes)
    peaks = (PeakSecond(since, round(heat * 1000), 0),)
    return replace(sketch, since=since, until=since + timedelta(minutes=5), peaks=peaks)


def names(store: SketchStore) -> set[str]:
    return {sketch.shard_id for sketch in store.sketches()}


def test_sketches_are_empty_at_first(store: SketchStore) -> None:
    assert store.sketches() == ()


def test_sketch_is_read_back_without_its_keys_names(store: SketchStore) -> None:
    kept = hot("shardId-1")
    assert store.keep(kept)
    [read] = store.sketches()
    assert read == replace(kept, keys=tuple(replace(key, name=None) for key in kept.keys))


def test_a_cool_shard_is_not_stored(store: SketchStore) -> None:
    assert not store.keep(hot("shardId-1", WARM - 0.01))
    assert store.sketches() == ()


def test_sketches_of_a_shard_are_put_together_for_half_an_hour(store: SketchStore) -> None:
    for minutes in range(0, 30, 5):
        assert store.keep(hot("shardId-1", minutes=minutes))
    [read] = store.sketches()
    assert (read.records, read.since, len(read.peaks)) == (30, NOW, 6)
    assert store.keep(hot("shardId-1", minutes=30))
    [read] = store.sketches()
    assert (read.records, read.since) == (5, NOW + timedelta(minutes=30))


def test_the_ten_hottest_are_kept(store: SketchStore) -> None:
    for number in range(PLACES):
        assert store.keep(hot(f"shardId-{number}", 0.6 + number / 100))
    assert not store.keep(hot("shardId-cool", 0.61))
    assert store.keep(hot("shardId-hot", 0.9))
    assert names(store) == {"shardId-hot", *(f"shardId-{number}" for number in range(1, PLACES))}


def test_a_place_is_free_after_an_hour(store: SketchStore) -> None:
    for number in range(PLACES):
        store.keep(hot(f"shardId-{number}", 0.9))
    assert store.keep(hot("shardId-late", 0.6, minutes=66))
    assert "shardId-late" in names(store)
    assert fresh(store.sketches(), NOW + timedelta(minutes=71)).keys() == {"shardId-late"}


# What only a table shows.


def test_names_are_stored_if_asked_for(moto_aws: None) -> None:
    store = over_dynamodb(dynamodb_client(), with_names=True)
    store.keep(hot("shardId-1"))
    [read] = store.sketches()
    assert [key.name for key in read.keys] == ["anna@example.com"]


def test_eleven_items_at_most_and_ticks_leave_them_alone(moto_aws: None) -> None:
    client = dynamodb_client()
    table = sightings_table(client)
    store, sightings = (
        DynamoDbSketchStore(lambda: client, table),
        DynamoDbSightingStore(lambda: client, table),
    )
    for number in range(3 * PLACES):
        store.keep(hot(f"shardId-{number}", 0.5 + number))
    sightings.save({"shardId-1": Sighting(1, "a", NOW)})
    assert sightings.load().sightings.keys() == {"shardId-1"}
    sightings.save({})
    keys = {item[KEY]["S"] for item in client.scan(TableName=table)["Items"]}
    assert keys == {HOT, *(f"{HOT} {number}" for number in range(10))}
    assert len(names(store)) == 10


def test_another_owner_s_places_are_not_overwritten(moto_aws: None) -> None:
    """Another owner takes a place between our read and our write."""
    client = dynamodb_client()
    table = sightings_table(client)
    other, raced = DynamoDbSketchStore(lambda: client, table), list[bool]()

    class Racing:
        def put_item(self, **arguments: Any) -> Any:
            if not raced:
                raced.append(other.keep(hot("shardId-other")))
            return client.put_item(**arguments)

        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

    racing: Any = Racing()
    assert DynamoDbSketchStore(lambda: racing, table).keep(hot("shardId-ours"))
    assert names(other) == {"shardId-other", "shardId-ours"}


def test_damaged_items_are_replaced(moto_aws: None) -> None:
    client = dynamodb_client()
    store = over_dynamodb(client)
    for key in (HOT, f"{HOT} 0"):
        client.put_item(TableName=store._table, Item={KEY: {"S": key}, DATA: {"B": b"?"}})
    assert store.sketches() == ()
    assert store.keep(hot("shardId-1"))
    assert names(store) == {"shardId-1"}


def test_no_table(moto_aws: None) -> None:
    client = dynamodb_client()
    with pytest.raises(LeaseTableNotFound):
        DynamoDbSketchStore(lambda: client, "app-missing").keep(hot("shardId-1"))
