"""Shard sync on streams that are too large for a scenario file."""

from datetime import UTC, datetime

import pytest
from sublet.decisions.manager.shard_sync import CreateReason, plan_shard_sync
from sublet.protocol.checkpoint import LATEST, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard
from sublet.settings import StartKind, StartPosition


def test_shard_sync_walks_10000_generations_without_recursion() -> None:
    last = 10_000
    shards = [
        Shard(str(n), FULL_RANGE, str(n - 1) if n else None, None, str(n), is_open=n == last) for n in range(last + 1)
    ]
    other = Lease("another-stream", Checkpoint("5"))
    plan = plan_shard_sync([other], [], shards, StartPosition(StartKind.TRIM_HORIZON))
    assert [(new.lease.lease_key, new.why) for new in plan.create] == [("0", CreateReason.ANCESTOR)]


@pytest.mark.parametrize(
    ("shard_id", "keys", "is_read_whole"),
    [
        ("shardId-9", (10, 20), True),
        ("shardId-9", (0, 10), True),
        ("shardId-9", (0, 9), False),
        ("shardId-9", (20, 30), True),
        ("shardId-9", (21, 30), False),
    ],
    ids=["its keys", "its first", "up to it", "its last", "after it"],
)
def test_descendant_of_an_expired_shard_starts_at_trim_horizon_despite_latest(
    shard_id: str, keys: tuple[int, int], is_read_whole: bool
) -> None:
    forgotten = Lease("shardId-5", Checkpoint("5"), hash_key_range=HashKeyRange(10, 20))
    listed = [Shard(shard_id, HashKeyRange(*keys), starting_sequence_number="7")]
    (new,) = plan_shard_sync([forgotten], [], listed, StartPosition(StartKind.LATEST)).create
    assert new.lease.checkpoint == (TRIM_HORIZON if is_read_whole else LATEST)


@pytest.mark.parametrize("kind", StartKind)
@pytest.mark.parametrize(("keys", "is_made"), [((10, 20), False), ((0, 10), False), ((20, 30), False), ((0, 9), True)])
def test_open_shard_gets_no_lease_from_a_listing_older_than_a_descendants_lease(
    kind: StartKind, keys: tuple[int, int], *, is_made: bool
) -> None:
    """Two reshards lie between them, so that no row names the shard as its parent."""
    grandchild = Lease(
        "shardId-5",
        Checkpoint("5"),
        lease_owner="worker",
        parent_shard_ids=frozenset({"shardId-4"}),
        hash_key_range=HashKeyRange(10, 20),
    )
    listed = [Shard("shardId-3", HashKeyRange(*keys), starting_sequence_number="3")]
    start = StartPosition(kind, datetime(2026, 1, 1, tzinfo=UTC) if kind is StartKind.AT_TIMESTAMP else None)
    assert bool(plan_shard_sync([grandchild], [], listed, start).create) is is_made
