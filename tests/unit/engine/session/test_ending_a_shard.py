"""The end of a shard: its children's leases, their names, SHARD_END, in this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.errors import LeaseTableUnavailable
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, delete

from tests.doubles.engine_world import (
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    lease_of,
    only,
    raising,
)

HOUR = timedelta(hours=1)


def test_shard_end_is_written_after_the_childrens_leases_and_names() -> None:
    """A crash in between leaves a parent that is not ended; one that ended without children's leases is a hole for
    ever.
    """
    world = EngineWorld()
    world.put("last")
    children = world.shards.split(SHARD)
    world.window(world.item(SHARD))
    kinds = world.table.kinds()
    assert kinds.index(WriteKind.CHECKPOINT) < kinds.index(WriteKind.CREATE)
    end = kinds.index(WriteKind.END)
    assert kinds[end - 3 : end] == [WriteKind.CREATE, WriteKind.CREATE, WriteKind.SET_CHILDREN]
    row = world.table.lease()
    assert row.is_ended
    assert row.lease_owner is None, "an owner who never heartbeats again looks like a dead worker"
    assert row.child_shard_ids == frozenset(children)
    calls = world.handler.calls
    assert calls.index(("handle", SHARD)) < calls.index(("shard_ended", SHARD))


def test_children_of_a_shard_start_at_the_horizon_with_range_and_parents() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    world.settings = replace(NO_WAITING, leases_per_worker=1)
    world.window(world.item(SHARD))
    shards = {shard.shard_id: shard for shard in world.shards.list_shards()}
    child = world.table.lease("shardId-000000000002")
    assert child == lease_of(shards[child.shard_id], TRIM_HORIZON)


@pytest.mark.parametrize("kind", [WriteKind.SET_CHILDREN, WriteKind.END, WriteKind.CREATE])
def test_a_shards_end_whose_response_gets_lost_is_an_end(kind: WriteKind) -> None:
    world = EngineWorld()
    children = world.shards.split(SHARD)
    world.table.lose_response_of(kind)
    assert world.window(world.item(SHARD)).leases[0].outcome is SessionOutcome.SHARD_ENDED
    row = world.table.lease()
    assert row.is_ended
    assert row.child_shard_ids == frozenset(children)


def test_shard_end_names_the_children_after_a_heartbeat_that_timed_out() -> None:
    """The cleanup goes by these names once the service has forgotten the shard."""
    world = EngineWorld()
    children = world.shards.split(SHARD)

    def heartbeat_in_between(_: str) -> None:
        world.tasks.sleep(11 * SECOND)

    def time_out(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        result = apply()
        if write.kind is WriteKind.HEARTBEAT:
            raise LeaseTableUnavailable("timed out")
        return result

    world.handler.on_ended, world.table.disturb = heartbeat_in_between, time_out
    assert world.window(world.item(SHARD)).leases[0].outcome is SessionOutcome.SHARD_ENDED
    assert world.table.lease().child_shard_ids == frozenset(children)


def test_paused_process_creates_no_children_of_a_shard_that_others_ended() -> None:
    """They have ended it and its children too, and the rows are gone: children created again would be read once
    more.
    """
    world = EngineWorld()
    world.shards.split(SHARD)

    def freeze_while_others_end_it(_: str) -> None:
        world.clock.advance(HOUR)
        world.table.real.apply(delete(world.table.lease()))

    world.handler.on_ended = freeze_while_others_end_it
    assert only(world.window(world.item(SHARD))).outcome is SessionOutcome.LEASE_LOST
    assert WriteKind.CREATE not in world.table.kinds()


def test_a_lease_that_is_lost_at_the_end_of_its_shard_is_not_reported_as_ended() -> None:
    """While the session looks for a merge's other parent, a heartbeat finds another owner."""
    world = EngineWorld(shards=2)
    world.shards.merge(SHARD, "shardId-000000000001")

    def taken_meanwhile(key: str) -> None:
        if key != SHARD and not world.handler.calls.count(("lease_lost", SHARD)):
            world.steal()
            world.tasks.sleep(15 * SECOND)

    world.table.disturb_get = taken_meanwhile
    assert only(world.window(world.item(SHARD))).outcome is SessionOutcome.LEASE_LOST
    assert ("shard_ended", SHARD) not in world.handler.calls


def test_a_handler_that_refuses_the_end_keeps_the_shard_from_being_ended() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    world.handler.on_ended = raising(ValueError("not yet"))
    report = world.window(world.item(SHARD))
    assert only(report).outcome is SessionOutcome.HANDLER_FAILED
    assert not world.table.lease().is_ended
    assert WriteKind.CREATE not in world.table.kinds()


def test_merge_waits_for_an_other_parent_without_a_lease() -> None:
    """Ended now, the child would begin without the other parent's records (KCL blocks too). The next tick creates that
    lease.
    """
    world = EngineWorld(shards=2, leases=False)
    world.put_lease(lease_of(world.shards.list_shards()[0]))
    world.put("a")
    child = world.shards.merge(SHARD, "shardId-000000000001")
    report = world.window()
    assert only(report).outcome is SessionOutcome.SHARD_END_BLOCKED
    assert report.next is AfterWindow.PROMPT
    (line,) = [line for line in world.log.lines if "waits for a merge's other parent" in line.message]
    assert line.fields == {"lease_key": SHARD, "parents": ["shardId-000000000001"]}
    row = world.table.lease()
    assert not row.is_ended
    assert row.lease_owner is None
    assert world.table.get(child) is None


def test_merge_does_not_wait_for_an_other_parent_past_retention() -> None:
    world = EngineWorld(shards=2, leases=False)
    world.put_lease(lease_of(world.shards.list_shards()[0]))
    world.shards.merge(SHARD, "shardId-000000000001")
    del world.shards._logs["shardId-000000000001"]
    assert world.window().leases[0].outcome is SessionOutcome.SHARD_ENDED


def test_a_merge_whose_other_parents_row_is_malformed_ends_but_its_child_waits() -> None:
    world = EngineWorld(shards=2)
    child = world.shards.merge(SHARD, "shardId-000000000001")
    item = world.item(SHARD)
    world.table.real.put_row({"leaseKey": {"S": "shardId-000000000001"}})
    report = world.window(item)
    assert only(report).outcome is SessionOutcome.SHARD_ENDED
    assert world.table.lease(child).lease_counter == 0


def test_a_shard_lost_just_before_its_end_is_not_ended() -> None:
    world = EngineWorld()
    world.put("last")
    world.shards.split(SHARD)
    world.handler.on_ended = lambda _: world.steal()
    report = world.window(world.item(SHARD))
    assert only(report).outcome is SessionOutcome.LEASE_LOST
    assert not world.table.lease().is_ended


def test_shard_ended_is_not_called_when_the_lease_was_lost_in_the_last_call() -> None:
    """The new owner will handle its rest, and say so."""
    world = EngineWorld()
    world.put("last")
    world.shards.split(SHARD)
    world.handler.script = lambda _: world.steal()
    assert only(world.window(world.item(SHARD))).outcome is SessionOutcome.LEASE_LOST
    assert ("shard_ended", SHARD) not in world.handler.calls
    assert WriteKind.CREATE not in world.table.kinds()


def test_child_of_an_unfinished_parent_is_released_unread() -> None:
    """The scan that sent us may be seconds old, and may have missed the parent's row."""
    world = EngineWorld()
    child, _ = world.shards.split(SHARD)
    shards = {shard.shard_id: shard for shard in world.shards.list_shards()}
    world.put_lease(lease_of(shards[child]))
    world.shards.put("k", b"too early", 0)
    report = only(world.window(world.item(child)))
    assert report.outcome is SessionOutcome.WAITS_FOR_PARENTS
    assert world.handler.data() == []
    assert world.table.lease(child).lease_owner is None
