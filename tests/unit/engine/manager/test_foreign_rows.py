"""How a lease worker treats rows that others wrote, such as Java workers, which leave our holder in place, and late
parents.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.protocol.lease_writes import WriteKind

from tests.doubles.engine_world import NO_WAITING, SECOND, SHARD, EngineWorld, only

CHILD = "shardId-000000000001"


def test_second_attempt_leaves_a_lease_that_a_java_worker_took() -> None:
    world = EngineWorld()
    world.put("a")
    item = world.item()
    world.change_lease(lease_owner="kcl", lease_counter=7, holder=f"{item.item_id}/crashed")
    assert only(world.window(item)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.table.lease().lease_owner == "kcl"
    assert world.handler.calls == []


def test_acquire_fails_when_a_java_worker_took_the_lease_before_its_response() -> None:
    world = EngineWorld()
    world.put("a")
    item = world.item()
    world.change_lease(lease_owner="kcl", lease_counter=2, holder=f"{item.item_id}/invocation-1")
    assert only(world.window(item)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.table.lease().lease_counter == 2


def test_a_thief_that_is_robbed_by_a_java_worker_while_it_waits_writes_nothing_more() -> None:
    world = EngineWorld(replace(NO_WAITING, handover_wait=timedelta(seconds=5)))
    world.put("a")
    world.at(SECOND, lambda: world.change_lease(lease_owner="kcl", lease_counter=9))
    assert only(world.window(world.item(why=ClaimReason.STEAL))).outcome is SessionOutcome.LEASE_LOST
    assert world.table.lease().lease_counter == 9
    assert world.handler.data() == []


@pytest.mark.parametrize("checkpoint_begun", [False, True])
def test_a_child_waits_for_a_parent_that_the_lease_managers_scan_had_missed(checkpoint_begun: bool) -> None:
    world = EngineWorld()
    world.put("a")
    world.shards.split(SHARD)
    world.put("b")
    world.put_lease(replace(world.table.lease(), lease_key=CHILD, parent_shard_ids=frozenset({SHARD})))
    if checkpoint_begun:
        began = world.shards.put("key", b"c", explicit_hash_key=0)
        world.change_lease(CHILD, checkpoint=replace(world.table.lease().checkpoint, sequence_number=began))
    report = world.window(world.item(CHILD))
    if checkpoint_begun:
        assert only(report).outcome is SessionOutcome.CAUGHT_UP
    else:
        assert only(report).outcome is SessionOutcome.WAITS_FOR_PARENTS
        assert report.next is AfterWindow.DONE
        assert world.handler.calls == []
        assert world.table.kinds(CHILD) == [WriteKind.ACQUIRE, WriteKind.RELEASE]
