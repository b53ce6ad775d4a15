"""The pure part of holding leases from Spark: which write comes next, and where a batch continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.session.held_lease import Tenure
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, QuietUntil
from sublet.protocol.lease_writes import WriteKind
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.spark.plan.committed import checkpoint_of, listed_children, next_write, quiet_of
from sublet.spark.plan.follow import leased_position
from sublet.spark.plan.joining import is_further, resume_ranges
from sublet.spark.plan.offsets import Ended, Offset, Position, ReadTo, ShardOffset, StreamOffset, Unread
from sublet.spark.plan.planning import ShardRange, other_listed_parents

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
HELD, DRAINING = Tenure.HELD, Tenure.DRAINING
MIDDLE = 2**127


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Unread(), None),
        (Ended(), None),
        (ReadTo("7"), Checkpoint("7", 0)),
        (ReadTo("7", last_sub_sequence_number=9), Checkpoint("7", 9)),
        (ReadTo("7", None, 3, 9), Checkpoint("7", 3)),
    ],
)
def test_a_position_as_a_checkpoint(position: Position, expected: Checkpoint | None) -> None:
    assert checkpoint_of(position) == expected


@pytest.mark.parametrize(
    ("position", "is_proof"),
    [
        (ReadTo("5"), True),
        (ReadTo("5", None, None, 7), False),
        (ReadTo("4"), False),
        (Unread(), False),
        (Ended(), False),
    ],
)
def test_released_lease_keeps_the_quiet_time_of_its_own_checkpoint(position: Position, is_proof: bool) -> None:
    lease, offset = Lease("shardId-0", Checkpoint("5")), ShardOffset(position, quiet_until=NOW)
    assert quiet_of(lease, offset) == (QuietUntil(NOW, lease.position) if is_proof else None)
    assert quiet_of(lease, None) is None
    assert quiet_of(lease, replace(offset, quiet_until=None)) is None


@pytest.mark.parametrize("start_at", [None, NOW])
def test_an_empty_shard_is_not_walked_again(start_at: datetime | None) -> None:
    lease = Lease("shardId-0", TRIM_HORIZON, start_at=start_at)
    assert quiet_of(lease, ShardOffset(Unread(start_at), quiet_until=NOW)) == QuietUntil(NOW, lease.position)
    assert quiet_of(lease, ShardOffset(Unread(NOW - timedelta(1)), quiet_until=NOW)) is None


def test_query_takes_over_the_quiet_time_of_the_row() -> None:
    """Also for an aggregate that was read to its end: a checkpoint inside it would be opened at the aggregate."""
    lease = Lease("shardId-0", Checkpoint("5", 3))
    proved = replace(lease, quiet=QuietUntil(NOW, lease.position))
    stale = replace(lease, quiet=QuietUntil(NOW, Lease("shardId-0", Checkpoint("4")).position))
    part, whole = ReadTo("5", None, 3), ReadTo("5", None, None, 3)
    assert leased_position(lease, NOW) == ShardOffset(part, part)
    assert leased_position(stale, NOW) == ShardOffset(part, part)
    assert leased_position(proved, NOW) == ShardOffset(whole, whole, quiet_until=NOW)
    assert checkpoint_of(whole) == lease.checkpoint


@pytest.mark.parametrize(
    ("committed", "tenure", "in_doubt", "is_due", "expected"),
    [
        (None, HELD, False, False, None),
        (None, HELD, False, True, WriteKind.HEARTBEAT),
        (ReadTo("6"), HELD, True, False, WriteKind.CHECKPOINT),
        (ReadTo("5"), HELD, False, False, None),
        (ReadTo("4"), HELD, False, True, WriteKind.HEARTBEAT),
        (ReadTo("5"), DRAINING, True, False, None),
        (ReadTo("5"), DRAINING, False, False, WriteKind.HAND_OVER),
        (ReadTo("6"), DRAINING, False, False, WriteKind.CHECKPOINT),
        (Ended(), DRAINING, False, False, None),
    ],
)
def test_next_write_is_a_checkpoint_before_a_hand_over_or_heartbeat(
    committed: Position | None, tenure: Tenure, in_doubt: bool, is_due: bool, expected: WriteKind | None
) -> None:
    """Checkpoints first; a requested lease is handed over if no batch is in doubt and no end is due."""
    lease = Lease("shardId-0", Checkpoint("5"), lease_counter=3, lease_owner="a", checkpoint_owner="b")
    make = next_write(lease, tenure, committed, in_doubt=in_doubt, is_heartbeat_due=is_due)
    assert (make and make(lease).kind) == expected


@pytest.mark.parametrize(
    ("row", "position", "expected"),
    [
        (Checkpoint("7", 2), ReadTo("7"), False),
        (Checkpoint("7", 2), ReadTo("7", None, 1), True),
        (Checkpoint("7", 1), ReadTo("7", None, 1), False),
        (Checkpoint("10"), ReadTo("9"), True),
        (Checkpoint("9"), ReadTo("10"), False),
        (Checkpoint("9"), Unread(NOW), True),
        (TRIM_HORIZON, Unread(), False),
        (LATEST, ReadTo("9"), False),
        (SHARD_END, ReadTo("9"), True),
        (SHARD_END, Ended(), False),
        (Checkpoint("9"), Ended(), False),
    ],
)
def test_row_and_offset_are_compared_by_position(row: Checkpoint, position: Position, expected: bool) -> None:
    assert is_further(row, position) is expected


numbers = st.integers(1, 20)
rows = st.builds(Checkpoint, numbers.map(str), st.integers(0, 3))


@given(begin=numbers, length=numbers, row=rows, is_held=st.booleans())
def test_a_repeated_batch_reads_unhandled_records_and_waits_for_another_worker_s(
    begin: int, length: int, row: Checkpoint, is_held: bool
) -> None:
    """Of the user records (number, 0 to 3) in the range, each after the row is read if the lease is held, and none if
    not."""
    end = begin + length
    part = StreamOffset("orders", StreamIdentity("arn", NOW), {"s": ShardOffset(ReadTo(str(end), None, None, 3))})
    offset = Offset({None: part})
    leases: Mapping[str, Lease] = {"s": Lease("s", row, lease_owner="somebody")}
    whole = ShardRange("s", None, ReadTo(str(begin)), str(end))
    resumed = resume_ranges([whole], offset, leases if is_held else {}, {} if is_held else leases)

    wanted = [(n, sub) for n in range(begin + 1, end + 1) for sub in range(4)]
    left = [at for at in wanted if at > (int(row.sequence_number), row.sub_sequence_number)]
    assert bool(resumed.waiting) == (not is_held and bool(left))
    assert [at for one in resumed.ranges for at in _records(one)] == (left if is_held else [])


def _records(one: ShardRange) -> list[tuple[int, int]]:
    assert isinstance(one.begin, ReadTo)
    assert one.end is not None
    sub = one.begin.sub_sequence_number
    after = (int(one.begin.sequence_number), 3 if sub is None else sub)
    return [(n, m) for n in range(after[0], int(one.end) + 1) for m in range(4) if (n, m) > after]


def test_children_are_known_when_their_hash_keys_hold_all_of_the_parents() -> None:
    parent = Shard("p", FULL_RANGE, is_open=False)
    low = Shard("low", HashKeyRange(0, MIDDLE - 1), "p")
    high = Shard("high", HashKeyRange(MIDDLE, FULL_RANGE.ending), "p")
    merged = Shard("merged", FULL_RANGE, "low", "high")
    for seen in ([parent, low], [parent], [low, high]):
        assert listed_children(["p"], {s.shard_id: s for s in seen}) == {}
    found = listed_children(["p", "low", "merged"], {s.shard_id: s for s in (parent, high, low, merged)})
    assert {of: [child.shard_id for child in children] for of, children in found.items()} == {
        "p": ["low", "high"],
        "low": ["merged"],
    }
    assert found["low"][0].parent_shard_ids == {"low", "high"}


class CountedListing(dict[str, Shard]):
    """Counts how often it is gone through."""

    passes = 0

    def values(self) -> Any:
        self.passes += 1
        return super().values()


def test_a_listing_is_gone_through_once_for_all_the_shards_of_a_reshard() -> None:
    at = [n * FULL_RANGE.ending // 100 for n in range(101)]
    olds = [Shard(f"old-{n}", HashKeyRange(at[n], at[n + 1] - 1), is_open=False) for n in range(100)]
    news = [Shard(f"new-{n}", HashKeyRange(at[n], at[n + 2] - 1), f"old-{n}", f"old-{n + 1}") for n in range(0, 100, 2)]
    ids = [shard.shard_id for shard in olds]
    listing = CountedListing({shard.shard_id: shard for shard in (*olds, *news)})
    assert {of: [child.shard_id for child in new] for of, new in listed_children(ids, listing).items()} == {
        f"old-{n}": [f"new-{n - n % 2}"] for n in range(100)
    }
    assert other_listed_parents(ids, listing) == {f"old-{n}": {f"old-{n ^ 1}"} for n in range(100)}
    assert listing.passes == 2


def test_other_parents_of_a_merge_count_only_if_they_are_listed() -> None:
    low, merged = Shard("low", HashKeyRange(0, MIDDLE - 1), is_open=False), Shard("merged", FULL_RANGE, "low", "high")
    listing = {shard.shard_id: shard for shard in (low, merged)}
    assert other_listed_parents(["low", "merged"], listing) == {"low": frozenset(), "merged": frozenset()}
