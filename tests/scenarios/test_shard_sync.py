"""Decides which leases to create: cases of the Java KCL, of kcl-rust (create_new_leases), and ours."""

from typing import Any

from sublet.decisions.manager.shard_sync import NewLease, plan_shard_sync
from sublet.settings import StartPosition

from tests.scenarios.story import Story, hash_keys_written, leases, shards


def test_shard_sync(story: Story) -> None:
    given = story.given
    start_position = StartPosition.parse(given["start_position"])
    plan = plan_shard_sync(leases(given), given.get("malformed", []), shards(given), start_position)
    decided: dict[str, Any] = {"create": [_written(new) for new in plan.create]}
    if plan.inconsistent:
        decided["inconsistent"] = list(plan.inconsistent)
    if plan.holes:
        decided["holes"] = [hash_keys_written(hole) for hole in plan.holes]
    story.check(decided)


def _written(new: NewLease) -> dict[str, Any]:
    lease = new.lease
    assert lease.lease_owner is None
    assert lease.lease_counter == 0
    fields: dict[str, Any] = {
        "lease": lease.lease_key,
        "checkpoint": str(lease.checkpoint),
        "why": new.why.value,
    }
    if lease.start_at:
        fields["start_at"] = lease.start_at.isoformat()
    if lease.parent_shard_ids:
        fields["parents"] = sorted(lease.parent_shard_ids)
    return fields | {"hash_keys": hash_keys_written(lease.hash_key_range)}
