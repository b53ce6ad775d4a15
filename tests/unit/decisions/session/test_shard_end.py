"""The writes for a closed shard that is handled to its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sublet.decisions.session.shard_end import BlockedByParents, EndShard, may_begin, other_parents, plan_shard_end
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.shard import FULL_RANGE, ChildShard, HashKeyRange

from tests.doubles.engine_world import moment

PARENT = Lease("shardId-000000000000", Checkpoint("100"), 7, "app-lambda-0", hash_key_range=FULL_RANGE)
LOW = ChildShard("shardId-000000000002", frozenset({PARENT.lease_key}), HashKeyRange(0, 9))
HIGH = ChildShard("shardId-000000000003", frozenset({PARENT.lease_key}), HashKeyRange(10, 19))
MERGED = ChildShard("shardId-000000000004", frozenset({PARENT.lease_key, "shardId-000000000001"}), FULL_RANGE)


def test_split_creates_both_children_at_trim_horizon_with_range_and_parents() -> None:
    plan = plan_shard_end(PARENT, [HIGH, LOW], ())
    assert plan == EndShard(
        create=tuple(
            Lease(
                child.shard_id,
                TRIM_HORIZON,
                parent_shard_ids=child.parent_shard_ids,
                hash_key_range=child.hash_key_range,
            )
            for child in (LOW, HIGH)
        ),
        child_shard_ids=frozenset({LOW.shard_id, HIGH.shard_id}),
    )


def test_children_begin_at_the_horizon_also_when_the_parent_began_at_latest() -> None:
    """All that is in a child came after what its parent was at the tip of."""
    plan = plan_shard_end(replace(PARENT, checkpoint=LATEST), [LOW], ())
    assert isinstance(plan, EndShard)
    assert plan.create[0].checkpoint == TRIM_HORIZON


def test_the_moment_that_a_latest_parent_was_pinned_at_is_not_its_childrens() -> None:
    at = moment("2026-01-31T08:00:00")
    plan = plan_shard_end(replace(PARENT, checkpoint=LATEST, start_at=at), [LOW], ())
    assert isinstance(plan, EndShard)
    assert (plan.create[0].checkpoint, plan.create[0].start_at) == (TRIM_HORIZON, None)


def test_a_parent_that_ended_before_its_moment_passes_the_moment_on() -> None:
    """From the horizon, the children would bring what came before the moment."""
    at = moment("2026-01-31T08:00:00")
    plan = plan_shard_end(replace(PARENT, checkpoint=AT_TIMESTAMP, start_at=at), [LOW], ())
    assert isinstance(plan, EndShard)
    assert (plan.create[0].checkpoint, plan.create[0].start_at) == (AT_TIMESTAMP, at)


def test_a_parent_whose_moment_another_client_did_not_store_passes_none_on() -> None:
    """A child at AT_TIMESTAMP without a moment could not be opened."""
    plan = plan_shard_end(replace(PARENT, checkpoint=AT_TIMESTAMP), [LOW], ())
    assert isinstance(plan, EndShard)
    assert (plan.create[0].checkpoint, plan.create[0].start_at) == (TRIM_HORIZON, None)


def test_a_merge_waits_for_a_parent_that_has_no_lease_though_the_service_knows_it() -> None:
    missing = frozenset({"shardId-000000000001"})
    assert other_parents(PARENT, [MERGED]) == missing
    assert plan_shard_end(PARENT, [MERGED], missing) == BlockedByParents(missing)
    assert isinstance(plan_shard_end(PARENT, [MERGED], ()), EndShard)


def test_a_shard_without_children_ends_without_children() -> None:
    assert plan_shard_end(PARENT, [], ()) == EndShard((), frozenset())


CHILD = Lease(MERGED.shard_id, TRIM_HORIZON, parent_shard_ids=MERGED.parent_shard_ids)
ENDED = replace(PARENT, checkpoint=SHARD_END)


@pytest.mark.parametrize(
    ("because", "child", "parents", "expected"),
    [
        ("both parents have ended", CHILD, [ENDED, ENDED], True),
        ("one has ended, the other one's lease is gone", CHILD, [ENDED, None], True),
        ("one has not ended", CHILD, [ENDED, PARENT], False),
        ("one cannot be read", CHILD, [ENDED, MalformedRow("shardId-0", "no counter")], False),
        ("it has begun", replace(CHILD, checkpoint=Checkpoint("17")), [ENDED, PARENT], True),
        ("it has ended itself", replace(CHILD, checkpoint=SHARD_END), [ENDED, ENDED], False),
    ],
)
def test_a_child_begins_when_each_parent_has_ended_or_has_no_lease(
    because: str, child: Lease, parents: list[Lease | MalformedRow | None], expected: bool
) -> None:
    assert may_begin(child, parents) is expected, because
