"""When a shard ends, a window begins those of its children that can be read and for which there is room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.errors import LeaseTableUnavailable, StreamUnavailable
from sublet.protocol.checkpoint import SHARD_END
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, delete

from tests.doubles.engine_world import (
    NO_WAITING,
    SHARD,
    EngineWorld,
    Result,
    lease_of,
    only,
    outcomes,
    raising,
)

CHILD_1, CHILD_2 = "shardId-000000000001", "shardId-000000000002"


def test_descendants_of_a_deleted_parent_are_taken_over_up_to_leases_per_worker() -> None:
    """Through what has ended to what comes after it, and past what cannot be read."""
    world = EngineWorld(replace(NO_WAITING, leases_per_worker=1))
    child, other = world.shards.split(SHARD)
    malformed, ended = world.shards.split(child)
    below, beside = world.shards.split(ended)
    shards = {shard.shard_id: shard for shard in world.shards.list_shards()}
    item = world.item(SHARD)
    for shard_id in (other, ended, below, beside):
        world.put_lease(lease_of(shards[shard_id]))
    world.change_lease(ended, checkpoint=SHARD_END, child_shard_ids=frozenset({below, beside}))
    for shard_id in (other, below, beside):
        world.steal(shard_id, item.worker_id, f"{item.item_id}/crashed")
    world.table.real.put_row({"leaseKey": {"S": malformed}})
    world.table.real.apply(delete(world.table.lease(SHARD)))
    report = world.window(item)
    assert outcomes(report) == {SHARD: SessionOutcome.COULD_NOT_ACQUIRE, below: SessionOutcome.CAUGHT_UP}
    assert report.leases[0].unstarted_children == 2
    assert report.next is AfterWindow.PROMPT


def test_a_child_below_a_thousand_generations_that_are_cleaned_up_goes_on() -> None:
    world = EngineWorld()
    item, last = world.item(SHARD), SHARD
    for _ in range(1200):
        last = world.shards.merge(*world.shards.split(last))
    world.put_lease(lease_of(world.shards.list_shards()[-1]))
    world.steal(last, item.worker_id, f"{item.item_id}/crashed")
    world.table.real.apply(delete(world.table.lease(SHARD)))
    assert outcomes(world.window(item)) == {SHARD: SessionOutcome.COULD_NOT_ACQUIRE, last: SessionOutcome.CAUGHT_UP}


@pytest.mark.parametrize("what", ["stream", "table"])
def test_descendants_that_cannot_be_listed_are_logged_and_left_to_a_tick(what: str) -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    item = world.item()
    world.table.real.apply(delete(world.table.lease()))
    if what == "stream":
        world.stream.disturb_listing = raising(StreamUnavailable("timed out"))
    else:
        world.table.disturb_get = raising(LeaseTableUnavailable("timed out"))
    assert only(world.window(item)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    (line,) = [line for line in world.log.lines if line.message == "could not check for child shards"]
    assert line.fields == {"lease_key": SHARD, "problem": "timed out"}


def test_unreadable_children_of_an_ended_shard_are_logged_and_left_to_a_tick() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)

    def out_of_reach_after_the_end(_: str) -> None:
        if WriteKind.END in world.table.kinds():
            raise LeaseTableUnavailable("timed out")

    world.table.disturb_get = out_of_reach_after_the_end
    report = world.window()
    assert (only(report).outcome, only(report).unstarted_children) == (SessionOutcome.SHARD_ENDED, 2)
    assert report.next is AfterWindow.PROMPT
    assert "lease table unavailable" in world.log.messages("warning")


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_child_whose_row_is_gone_or_malformed_keeps_its_sibling_from_nothing(is_gone: bool) -> None:
    world = EngineWorld()
    world.shards.split(SHARD)

    def break_the_row(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if write.kind is WriteKind.END:
            world.table.real.apply(delete(world.table.lease(CHILD_1)))
            if not is_gone:
                world.table.real.put_row({"leaseKey": {"S": CHILD_1}})
        return apply()

    world.table.disturb = break_the_row
    assert outcomes(world.window()) == {SHARD: SessionOutcome.SHARD_ENDED, CHILD_2: SessionOutcome.CAUGHT_UP}
