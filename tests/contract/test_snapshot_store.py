"""The SnapshotStore port's promises, for its three implementations; and how large snapshots are kept in DynamoDB."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.sighting_chunks import CHUNK_BYTES_MAX
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.operate.aws.snapshots import FIRST, OTHERS, DynamoDbSnapshotStore
from sublet.operate.cli.positions.snapshots import SnapshotFiles
from sublet.ports import Remembered, SnapshotStore
from sublet.protocol.checkpoint import AT_TIMESTAMP, SHARD_END, Checkpoint
from sublet.protocol.lease import Position
from sublet.protocol.snapshot import Snapshot, encode_snapshot
from sublet.protocol.stream_identity import StreamIdentity
from sublet.testing.memory import MemorySnapshotStore
from sublet.testing.memory.clock import BEGINNING

from tests.contract.dynamodb_tables import create_table

SNAPSHOT = Snapshot(
    "before-release",
    BEGINNING,
    "by hand",
    {
        "shardId-000000000000": Position(Checkpoint("5", 3)),
        "shardId-000000000001": Position(AT_TIMESTAMP, BEGINNING),
        "shardId-000000000002": Position(SHARD_END),
    },
    ("shardId-000000000002",),
    stream=StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", BEGINNING),
    absent=("shardId-000000000002",),
)


def large(shards: int, seed: int = 1) -> Snapshot:
    """Positions that do not compress well, as those of busy shards."""
    chance = Random(seed)
    positions = {
        f"shardId-{number:012}": Position(Checkpoint(f"4967{chance.randrange(10**52):052}")) for number in range(shards)
    }
    return replace(SNAPSHOT, positions=positions, then=positions, moved=tuple(sorted(positions)))


def a_store(request: pytest.FixtureRequest, kind: str) -> SnapshotStore:
    if kind == "memory":
        return MemorySnapshotStore()
    if kind == "files":
        folder: Path = request.getfixturevalue("tmp_path")
        return SnapshotFiles(folder, "orders")
    request.getfixturevalue("moto_aws")
    client = dynamodb_client()
    table = create_table(client, f"app-{uuid.uuid4().hex[:8]}-sightings", "chunk")
    return DynamoDbSnapshotStore(lambda: client, table)


@pytest.fixture(params=["memory", "files", pytest.param("moto", marks=pytest.mark.emulator)])
def store(request: pytest.FixtureRequest) -> SnapshotStore:
    return a_store(request, request.param)


@pytest.fixture
def dynamodb(request: pytest.FixtureRequest) -> DynamoDbSnapshotStore:
    found = a_store(request, "moto")
    assert isinstance(found, DynamoDbSnapshotStore)
    return found


def test_snapshots_are_kept_by_name_and_listed_in_order(store: SnapshotStore) -> None:
    assert store.snapshots() == ()
    later = replace(SNAPSHOT, name="later", taken_at=BEGINNING + timedelta(hours=1))
    for each in (later, replace(SNAPSHOT, why="once"), SNAPSHOT):
        store.keep_snapshot(each)
    assert store.snapshots() == (SNAPSHOT, later)
    store.delete_snapshot("later")
    store.delete_snapshot("later")
    assert store.snapshots() == (SNAPSHOT,)


def test_snapshot_of_10000_shards_is_kept(store: SnapshotStore) -> None:
    many = large(10_000)
    assert len(encode_snapshot(many)) > 400_000, "more than an item may hold"
    store.keep_snapshot(many)
    store.keep_snapshot(replace(SNAPSHOT, name="later", taken_at=BEGINNING + timedelta(hours=1)))
    first, _ = store.snapshots()
    assert first == many
    store.delete_snapshot(many.name)
    assert [each.name for each in store.snapshots()] == ["later"]


@pytest.mark.emulator
def test_ticks_leave_snapshots_where_they_are(dynamodb: DynamoDbSnapshotStore) -> None:
    dynamodb.keep_snapshot(large(10_000))
    sightings = DynamoDbSightingStore(dynamodb_client, dynamodb._table)
    assert sightings.load() == Remembered({})
    sightings.save({})
    assert len(dynamodb.snapshots()) == 1


def items(store: DynamoDbSnapshotStore) -> list[str]:
    return sorted(item["chunk"]["S"] for item in dynamodb_client().scan(TableName=store._table)["Items"])


@pytest.mark.emulator
def test_snapshot_replaces_one_of_the_same_name_with_all_its_items(dynamodb: DynamoDbSnapshotStore) -> None:
    for shards in (10_000, 8_000, 3):
        dynamodb.keep_snapshot(large(shards))
        assert dynamodb.snapshots() == (large(shards),)
    assert items(dynamodb) == [FIRST + SNAPSHOT.name]


@pytest.mark.emulator
def test_snapshot_deletes_items_that_a_killed_writer_left_a_day_ago(
    dynamodb: DynamoDbSnapshotStore,
) -> None:
    """Not before: it may be at work."""
    kept, killed = large(8_000), replace(large(8_000, seed=2), name="killed")
    dynamodb.keep_snapshot(kept)
    dynamodb.keep_snapshot(killed)
    dynamodb_client().delete_item(TableName=dynamodb._table, Key={"chunk": {"S": FIRST + killed.name}})
    left = [key for key in items(dynamodb) if key.startswith(f"{OTHERS}{killed.name}/")]
    assert left
    hour = timedelta(hours=1)
    dynamodb.keep_snapshot(replace(SNAPSHOT, name="soon", taken_at=BEGINNING + 23 * hour))
    assert [key for key in items(dynamodb) if key in left] == left
    dynamodb.keep_snapshot(replace(SNAPSHOT, name="next", taken_at=BEGINNING + 25 * hour))
    assert [key for key in items(dynamodb) if key in left] == []
    assert dynamodb.snapshots()[0] == kept


@pytest.mark.emulator
def test_incomplete_snapshot_is_listed_as_damaged_and_hides_no_other(dynamodb: DynamoDbSnapshotStore) -> None:
    """A process that ends between its writes leaves the former one; one whose part is lost is known by its name."""
    dynamodb.keep_snapshot(large(8_000))
    dynamodb.keep_snapshot(replace(SNAPSHOT, name="later"))
    half_written = f"{OTHERS}{SNAPSHOT.name}/{'0' * 64}/0001"
    dynamodb_client().put_item(TableName=dynamodb._table, Item={"chunk": {"S": half_written}, "data": {"B": b"x"}})
    assert [each.problem for each in dynamodb.snapshots()] == ["", ""]
    lost = next(key for key in items(dynamodb) if key.startswith(OTHERS) and key != half_written)
    dynamodb_client().delete_item(TableName=dynamodb._table, Key={"chunk": {"S": lost}})
    damaged, later = dynamodb.snapshots()
    assert (damaged.name, damaged.problem) == (SNAPSHOT.name, "1 of its 2 parts are missing")
    assert later.name == "later"


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"data": {"B": b"xx"}}, "it is damaged"),
        ({}, "its item is damaged: KeyError"),
        ({"data": {"B": b"xx"}, "parts": {"N": "2"}}, "its item is damaged: KeyError"),
    ],
)
def test_unreadable_snapshot_is_listed_as_damaged_and_hides_no_other(
    dynamodb: DynamoDbSnapshotStore, columns: dict[str, dict[str, object]], says: str
) -> None:
    dynamodb.keep_snapshot(SNAPSHOT)
    item: dict[str, dict[str, object]] = {"chunk": {"S": f"{FIRST}bad"}, **columns}
    dynamodb_client().put_item(TableName=dynamodb._table, Item=item)
    damaged, other = dynamodb.snapshots()
    assert damaged.name == "bad"
    assert damaged.problem.startswith(says)
    assert other == SNAPSHOT


@pytest.mark.parametrize("content", [b"junk", b"\xff\xfe\x00", b"[]", b'{"version": 99}'])
def test_a_file_that_cannot_be_read_is_named(content: bytes, tmp_path: Path) -> None:
    store = SnapshotFiles(tmp_path, "orders")
    store.keep_snapshot(SNAPSHOT)
    (tmp_path / "orders-snapshot-bad.json").write_bytes(content)
    damaged, other = store.snapshots()
    assert (damaged.name, other) == ("bad", SNAPSHOT)
    assert str(tmp_path / "orders-snapshot-bad.json") in damaged.problem


def test_a_part_fits_in_an_item() -> None:
    assert CHUNK_BYTES_MAX < 400_000
