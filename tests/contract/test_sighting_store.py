"""The SightingStore port's promises, held by both implementations; and how DynamoDB's is kept small."""

from __future__ import annotations

import uuid
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from sublet.aws.clients import dynamodb_client
from sublet.aws.sightings import CHUNK_BYTES_MAX, DynamoDbSightingStore
from sublet.decisions.liveness import Sighting
from sublet.errors import LeaseTableKeyUnexpected, LeaseTableNotFound, LeaseTableUnavailable
from sublet.memory import MemorySightingStore
from sublet.memory.clock import BEGINNING
from sublet.ports import Remembered, SightingStore
from sublet.protocol.stream_identity import StreamIdentity

from tests.contract.dynamodb_tables import create_table

SEEN = {
    "shardId-000000000000": Sighting(7, "app-lambda-0", BEGINNING),
    "shardId-000000000001": Sighting(0, None, BEGINNING + timedelta(milliseconds=1)),
}


@pytest.fixture(
    params=[
        "memory",
        pytest.param("moto", marks=pytest.mark.emulator),
        pytest.param("embedded", marks=pytest.mark.emulator),
    ]
)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SightingStore:
    if request.param == "memory":
        return MemorySightingStore()
    if request.param == "moto":
        request.getfixturevalue("moto_aws")
    else:
        for name, value in request.getfixturevalue("embedded_aws").environment.items():
            monkeypatch.setenv(name, value)
    client = dynamodb_client()
    return DynamoDbSightingStore(
        lambda: client, create_table(client, f"app-{uuid.uuid4().hex[:8]}-sightings", "chunk")
    )


def test_nothing_seen_yet(store: SightingStore) -> None:
    assert store.load().sightings == {}


def test_what_was_saved_is_loaded(store: SightingStore) -> None:
    store.save(SEEN)
    assert store.load().sightings == SEEN


def test_saving_replaces_everything(store: SightingStore) -> None:
    store.save(SEEN)
    fewer = {"shardId-000000000001": Sighting(1, "app-lambda-0", BEGINNING)}
    store.save(fewer)
    assert store.load().sightings == fewer
    store.save({})
    assert store.load().sightings == {}


ARN = "arn:aws:kinesis:eu-west-1:000000000000:stream/orders"
ORDERS = StreamIdentity(ARN, BEGINNING)
CREATED_ANEW = StreamIdentity(ARN, BEGINNING + timedelta(days=1, milliseconds=1))


def test_no_stream_is_known_before_one_is_adopted(store: SightingStore) -> None:
    assert store.load().stream is None


def test_the_first_stream_that_is_adopted_stands(store: SightingStore) -> None:
    assert store.adopt(ORDERS, None)
    assert not store.adopt(CREATED_ANEW, None)
    assert store.load().stream == ORDERS


def test_another_stream_is_adopted_instead_of_the_one_that_stands(store: SightingStore) -> None:
    assert not store.adopt(CREATED_ANEW, ORDERS)
    store.adopt(ORDERS, None)
    assert store.adopt(CREATED_ANEW, ORDERS)
    assert store.load().stream == CREATED_ANEW


def test_sightings_and_the_stream_leave_each_other_alone(store: SightingStore) -> None:
    store.adopt(ORDERS, None)
    store.save(SEEN)
    store.save({})
    assert store.load() == Remembered({}, ORDERS)


def incompressible(count: int) -> dict[str, Sighting]:
    chance = Random(1)
    return {
        f"shardId-{n:012}": Sighting(n, f"{chance.getrandbits(1024):x}", BEGINNING + timedelta(seconds=n))
        for n in range(count)
    }


@pytest.mark.emulator
@pytest.mark.usefixtures("moto_aws")
class TestOnDynamoDb:
    @pytest.fixture
    def client(self) -> Any:
        client = dynamodb_client()
        create_table(client, "sightings", "chunk")
        return client

    def chunks(self, client: Any) -> dict[str, int]:
        """The size of each stored chunk."""
        items = client.scan(TableName="sightings")["Items"]
        return {item["chunk"]["S"]: len(item["data"]["B"]) for item in items}

    def test_ten_thousand_leases_are_one_write(self, client: Any) -> None:
        seen = {
            f"shardId-{n:012}": Sighting(
                n * 7919 % 100_000, f"app-lambda-{n % 7}", BEGINNING + timedelta(seconds=n % 97)
            )
            for n in range(10_000)
        }
        DynamoDbSightingStore(lambda: client, "sightings").save(seen)
        assert len(self.chunks(client)) == 1
        assert DynamoDbSightingStore(lambda: client, "sightings").load().sightings == seen

    def test_what_does_not_compress_is_split_below_the_item_limit(self, client: Any) -> None:
        seen = incompressible(8_000)
        DynamoDbSightingStore(lambda: client, "sightings").save(seen)
        sizes = self.chunks(client)
        assert len(sizes) > 1
        assert max(sizes.values()) <= CHUNK_BYTES_MAX
        assert DynamoDbSightingStore(lambda: client, "sightings").load().sightings == seen

    def test_chunks_of_a_longer_list_are_deleted(self, client: Any) -> None:
        DynamoDbSightingStore(lambda: client, "sightings").save(incompressible(8_000))
        DynamoDbSightingStore(lambda: client, "sightings").save(SEEN)
        assert len(self.chunks(client)) == 1

    def test_what_has_not_changed_is_not_written(self, client: Any) -> None:
        writes: list[str] = []
        for operation in ("PutItem", "DeleteItem"):
            client.meta.events.register(
                f"before-call.dynamodb.{operation}", lambda model, **_: writes.append(model.name)
            )
        DynamoDbSightingStore(lambda: client, "sightings").save(SEEN)
        assert writes == ["PutItem"]
        next_tick = DynamoDbSightingStore(lambda: client, "sightings")
        next_tick.save(next_tick.load().sightings)
        assert writes == ["PutItem"]

    def test_damage_loses_sightings_and_nothing_else(self, client: Any) -> None:
        store = DynamoDbSightingStore(lambda: client, "sightings")
        store.save(SEEN)
        client.put_item(TableName="sightings", Item={"chunk": {"S": "0001"}, "data": {"B": b"not zlib"}})
        client.put_item(TableName="sightings", Item={"chunk": {"S": "0002"}})
        assert store.load().sightings == SEEN
        store.save(SEEN)
        assert len(self.chunks(client)) == 1

    def test_a_deleted_table_is_named(self, client: Any) -> None:
        store = DynamoDbSightingStore(lambda: client, "deleted-sightings")
        for call in (store.load, lambda: store.save(SEEN)):
            with pytest.raises(LeaseTableNotFound, match="no sightings table deleted-sightings"):
                call()

    def test_another_table_is_named(self, client: Any) -> None:
        create_table(client, "orders", "orderId")
        store = DynamoDbSightingStore(lambda: client, "orders")
        assert store.load().sightings == {}
        with pytest.raises(LeaseTableKeyUnexpected, match="orders is no sightings table, whose key is chunk"):
            store.save(SEEN)

    def test_another_table_is_named_when_its_rows_are_met(self, client: Any) -> None:
        create_table(client, "orders", "orderId")
        client.put_item(TableName="orders", Item={"orderId": {"S": "1"}})
        store = DynamoDbSightingStore(lambda: client, "orders")
        for call in (store.load, lambda: store.save(SEEN)):
            with pytest.raises(LeaseTableKeyUnexpected, match=r"orders is no sightings table.*no chunk"):
                call()
        assert client.scan(TableName="orders")["Items"] == [{"orderId": {"S": "1"}}]

    def test_of_a_lease_in_two_chunks_the_later_sighting_counts(self, client: Any) -> None:
        """Two ticks wrote lists of different lengths at once. The later one can only delay an expiry."""
        store = DynamoDbSightingStore(lambda: client, "sightings")
        key = "shardId-000000000000"
        newer = Sighting(8, "app-lambda-1", BEGINNING + timedelta(seconds=9))
        store.save({key: newer})
        stored = client.get_item(TableName="sightings", Key={"chunk": {"S": "0000"}})["Item"]
        for other in (SEEN[key], Sighting(8, "app-lambda-1", BEGINNING)):
            store.save({key: other})
            client.put_item(TableName="sightings", Item={**stored, "chunk": {"S": "0001"}})
            assert store.load().sightings == {key: newer}


def test_an_endpoint_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://127.0.0.1:{closed_port}")
    with pytest.raises(LeaseTableUnavailable, match="no reply about sightings table app-sightings"):
        DynamoDbSightingStore(dynamodb_client, "app-sightings").load()
