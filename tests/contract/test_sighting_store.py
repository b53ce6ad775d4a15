"""The SightingStore port's promises, for both implementations; and how DynamoDB's is kept small."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.sighting_chunks import CHUNK_BYTES_MAX
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.aws.tables.sightings_without_table import LastingSightings
from sublet.decisions.manager.dispatching import PROMPTED_TICK_ENDS_WITHIN, DispatchedWorker
from sublet.decisions.manager.joins_and_drains import Announcement, AnnouncementKind
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.errors import LeaseTableKeyUnexpected, LeaseTableNotFound, LeaseTableUnavailable
from sublet.ports import Remembered, SightingStore
from sublet.protocol.lease import LeaseFence
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, RecordDistribution, StreamDescription
from sublet.protocol.stream_key import StreamKey
from sublet.settings import SIGHTINGS_SUFFIX, Settings
from sublet.testing.memory import MemoryLog, MemorySightingStore
from sublet.testing.memory.clock import BEGINNING

from tests.contract.dynamodb_tables import EMULATORS, create_table, emulated_dynamodb, sightings_table

SEEN = {
    "shardId-000000000000": Sighting(7, "app-lambda-0", BEGINNING, is_unheard=True),
    "shardId-000000000001": Sighting(0, None, BEGINNING + timedelta(milliseconds=1)),
    "shardId-000000000002": Sighting(9, "app-lambda-1", BEGINNING, moved_at=BEGINNING - timedelta(minutes=1)),
    "shardId-000000000003": Sighting(9, "app-lambda-1", BEGINNING, is_unheard=True),
}


@pytest.fixture(params=["memory", pytest.param("lasting", marks=pytest.mark.emulator), *EMULATORS])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SightingStore:
    if request.param == "memory":
        return MemorySightingStore()
    if request.param == "lasting":
        request.getfixturevalue("moto_aws")
        made = dynamodb_client()
        name = sightings_table(made)
        settings = Settings(application=name.removesuffix(SIGHTINGS_SUFFIX), stream="events")
        return LastingSightings(lambda: made, settings, MemoryLog())
    client = emulated_dynamodb(request, monkeypatch)
    return DynamoDbSightingStore(lambda: client, sightings_table(client))


def test_sightings_are_empty_at_first(store: SightingStore) -> None:
    assert store.load().sightings == {}


def test_sightings_are_loaded_as_saved(store: SightingStore) -> None:
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


def test_definition_is_replaced_only_by_a_writer_that_knows_it(store: SightingStore) -> None:
    first, second = {"failover_time": "30s", "on_failure": ""}, {"failover_time": "1m", "on_failure": ""}
    assert store.load().definition is None
    assert not store.define(second, first)
    assert store.define(first, None)
    assert store.define(first, None)
    assert not store.define(second, None)
    assert not store.define({"failover_time": "2m"}, second)
    assert store.load().definition == first
    assert store.define(second, first)
    assert store.load().definition == second
    store.save(SEEN)
    assert store.load() == Remembered(SEEN, definition=second)


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


DESCRIBED = StreamDescription(ORDERS, BEGINNING, timedelta(hours=48), RecordDistribution.AUTO)


def test_describing_begins_for_one_of_two_managers(store: SightingStore) -> None:
    seen = store.load()
    assert store.begin_describing(BEGINNING, seen)
    assert not store.begin_describing(BEGINNING + timedelta(seconds=1), seen)
    assert store.load().asked_at == BEGINNING
    assert store.begin_describing(BEGINNING + timedelta(seconds=1), store.load())


@pytest.mark.parametrize("distribution", [*RecordDistribution, None])
def test_a_description_is_kept_while_the_next_is_asked_for(
    distribution: RecordDistribution | None, store: SightingStore
) -> None:
    placement = Placement(replace(DESCRIBED, distribution=distribution), BEGINNING - timedelta(hours=1))
    store.keep_placement(placement, BEGINNING)
    later = BEGINNING + timedelta(minutes=5)
    assert store.begin_describing(later, store.load())
    assert store.load() == Remembered({}, placement=placement, asked_at=later)


SENT = {
    "shardId-000000000000": DispatchedWorker(
        LeaseFence("shardId-000000000000", None, 7), "app-lambda-0", False, BEGINNING
    ),
    "shardId-000000000001": DispatchedWorker(
        LeaseFence("shardId-000000000001", "java", 0), "app-lambda-1", True, BEGINNING
    ),
}


def test_dispatched_items_are_kept_by_one_of_two_concurrent_ticks(store: SightingStore) -> None:
    seen = store.load().round
    assert store.keep_dispatched(SENT, seen)
    assert not store.keep_dispatched({}, seen)
    assert store.load().dispatched == SENT
    assert store.keep_dispatched({}, store.load().round)
    assert store.load().dispatched == {}


JOINS = Announcement(AnnouncementKind.JOINS, BEGINNING + timedelta(milliseconds=1))
LEAVES = Announcement(AnnouncementKind.LEAVES, BEGINNING + timedelta(seconds=9))


def test_an_announcement_is_loaded_and_replaced_by_the_next(store: SightingStore) -> None:
    store.save(SEEN)
    store.announce("1", JOINS)
    store.announce("a:b.c-2", JOINS)
    store.announce("1", LEAVES)
    assert store.load() == Remembered(SEEN, announced={"1": LEAVES, "a:b.c-2": JOINS})


def test_an_announcement_removes_those_that_have_lapsed(store: SightingStore) -> None:
    store.announce("1", JOINS)
    store.announce("2", LEAVES)
    store.announce("3", JOINS, lapsed=["1", "nobody"])
    assert store.load().announced == {"2": LEAVES, "3": JOINS}


def test_prompts_during_a_tick_make_it_look_again(store: SightingStore) -> None:
    assert store.begin_prompted("a", BEGINNING)
    assert not store.begin_prompted("b", BEGINNING + timedelta(seconds=1))
    assert not store.begin_prompted("c", BEGINNING + timedelta(seconds=1))
    assert store.end_prompted("a")
    assert store.begin_prompted("a", BEGINNING + timedelta(seconds=2))
    assert not store.end_prompted("a")
    assert store.begin_prompted("d", BEGINNING + timedelta(seconds=3))


def test_a_prompted_tick_that_does_not_end_lapses(store: SightingStore) -> None:
    store.begin_prompted("dead", BEGINNING)
    now = BEGINNING + PROMPTED_TICK_ENDS_WITHIN
    assert not store.begin_prompted("a", now - timedelta(milliseconds=1))
    assert store.begin_prompted("b", now)
    assert not store.end_prompted("dead"), "b looks later"
    assert not store.begin_prompted("c", now)
    assert store.end_prompted("b")


def test_a_tick_that_began_in_the_far_future_holds_no_tick_up(store: SightingStore) -> None:
    store.begin_prompted("ahead", BEGINNING + timedelta(hours=1))
    assert store.begin_prompted("a", BEGINNING)


def test_ending_an_unknown_tick_says_to_look_again(store: SightingStore) -> None:
    assert store.end_prompted("a")


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

    def test_sightings_of_10000_leases_are_one_write(self, client: Any) -> None:
        seen = {
            f"shardId-{n:012}": Sighting(
                n * 7919 % 100_000, f"app-lambda-{n % 7}", BEGINNING + timedelta(seconds=n % 97)
            )
            for n in range(10_000)
        }
        DynamoDbSightingStore(lambda: client, "sightings").save(seen)
        assert len(self.chunks(client)) == 1
        assert DynamoDbSightingStore(lambda: client, "sightings").load().sightings == seen

    def test_incompressible_sightings_are_split_below_the_item_limit(self, client: Any) -> None:
        seen = incompressible(8_000)
        DynamoDbSightingStore(lambda: client, "sightings").save(seen)
        sizes = self.chunks(client)
        assert len(sizes) > 1
        assert max(sizes.values()) <= CHUNK_BYTES_MAX
        assert DynamoDbSightingStore(lambda: client, "sightings").load().sightings == seen

    def test_dispatches_of_10000_leases_are_one_item(self, client: Any) -> None:
        sent = {
            key: DispatchedWorker(LeaseFence(key, None, n * 7919 % 100_000), f"app-lambda-{n % 7}", False, BEGINNING)
            for n, key in ((n, f"shardId-{n:012}") for n in range(10_000))
        }
        store = DynamoDbSightingStore(lambda: client, "sightings")
        assert store.keep_dispatched(sent, 0)
        assert store.load().dispatched == sent

    def test_repeated_write_of_our_own_succeeds(self, client: Any) -> None:
        """botocore repeats a request whose reply got lost."""
        store = DynamoDbSightingStore(lambda: client, "sightings")
        assert store.keep_dispatched(SENT, 0)
        assert store.keep_dispatched(SENT, 0)
        assert store.begin_prompted("a", BEGINNING)
        assert store.begin_prompted("a", BEGINNING)

    def test_chunks_of_a_longer_list_are_deleted(self, client: Any) -> None:
        DynamoDbSightingStore(lambda: client, "sightings").save(incompressible(8_000))
        DynamoDbSightingStore(lambda: client, "sightings").save(SEEN)
        assert len(self.chunks(client)) == 1

    def test_unchanged_sightings_are_not_written(self, client: Any) -> None:
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

    def test_announcement_of_an_unknown_kind_is_ignored(self, client: Any) -> None:
        store = DynamoDbSightingStore(lambda: client, "sightings")
        store.announce("1", JOINS)
        for name, item in {"a": {}, "b": {"what": {"S": "sings"}, "at": {"N": "1"}}}.items():
            client.put_item(TableName="sightings", Item={"chunk": {"S": f"announced {name}"}, **item})
        assert store.load().announced == {"1": JOINS}

    def test_a_deleted_table_is_named(self, client: Any) -> None:
        store = DynamoDbSightingStore(lambda: client, "deleted-sightings")
        for call in (store.load, lambda: store.save(SEEN)):
            with pytest.raises(LeaseTableNotFound, match="no sightings table deleted-sightings"):
                call()

    def test_table_with_another_key_is_refused_by_name(self, client: Any) -> None:
        create_table(client, "orders", "orderId")
        store = DynamoDbSightingStore(lambda: client, "orders")
        assert store.load().sightings == {}
        with pytest.raises(LeaseTableKeyUnexpected, match="orders is not a sightings table \\(with the key chunk"):
            store.save(SEEN)

    def test_table_with_foreign_rows_is_refused_by_name(self, client: Any) -> None:
        create_table(client, "orders", "orderId")
        client.put_item(TableName="orders", Item={"orderId": {"S": "1"}})
        store = DynamoDbSightingStore(lambda: client, "orders")
        for call in (store.load, lambda: store.save(SEEN)):
            with pytest.raises(LeaseTableKeyUnexpected, match=r"orders is not a sightings table.*no chunk"):
                call()
        assert client.scan(TableName="orders")["Items"] == [{"orderId": {"S": "1"}}]

    def test_later_sighting_of_a_lease_in_two_chunks_counts(self, client: Any) -> None:
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


def test_unread_shards_are_replaced_and_the_rest_is_left_alone(store: SightingStore) -> None:
    store.save(SEEN)
    since = BEGINNING + timedelta(milliseconds=1)
    unread = {
        "shardId-000000000000": UnreadShard("TRIM_HORIZON", since),
        "shardId-000000000001": UnreadShard("100", since, owner="app-worker-1", owned_since=since),
    }
    store.keep_unread(unread)
    assert store.load() == Remembered(SEEN, unread=unread)
    store.keep_unread({})
    assert store.load() == Remembered(SEEN)


FIRST, OTHER = (
    StreamKey("123456789012", "orders", 1_700_000_000),
    StreamKey("123456789012", "payments", 1_700_000_001),
)


def test_store_keeps_each_stream_until_it_is_forgotten(store: SightingStore) -> None:
    """Lease managers with different lists do not replace each other's notes."""
    identity = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", BEGINNING)
    described = StreamDescription(identity, BEGINNING, timedelta(days=7), RecordDistribution.AUTO)
    known = KnownStream(BEGINNING, BEGINNING + timedelta(hours=1), Placement().with_description(described))
    store.keep_streams({FIRST: known})
    store.keep_streams({OTHER: KnownStream(BEGINNING)})
    remembered = store.load()
    assert remembered.streams == {FIRST: known, OTHER: KnownStream(BEGINNING)}
    assert remembered.placement == Placement()
    assert remembered.stream is None
    store.keep_streams({FIRST: KnownStream(BEGINNING)})
    store.forget_stream(OTHER)
    store.forget_stream(OTHER)
    assert store.load().streams == {FIRST: KnownStream(BEGINNING)}
