"""A process that starts again under its worker id, and one that starts under another's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sublet.decisions.choose_leases import ClaimReason
from sublet.engine.resuming import resume
from sublet.errors import WorkerIdInUse

from tests.doubles.engine_world import CONTINUOUS, SECOND, SHARD, EngineWorld

MINE = replace(CONTINUOUS, worker_id="host-1")
OTHER = "shardId-000000000001"


def left_behind(*lease_keys: str) -> EngineWorld:
    world = EngineWorld(MINE, shards=2)
    for key in lease_keys:
        world.change_lease(key, lease_owner="host-1", holder="dead/window-1", lease_counter=9)
    return world


def test_what_stands_still_for_a_heartbeats_time_is_resumed() -> None:
    world = left_behind(SHARD)
    (choice,) = resume(world.ports, MINE, world.tasks.signal())
    assert (choice.lease.fence, choice.why) == (world.table.lease().fence, ClaimReason.EXPIRED)
    assert world.seconds() < MINE.failover_time.total_seconds() / 2


def test_a_twin_is_refused_by_name_and_has_written_nothing() -> None:
    world = left_behind(SHARD, OTHER)
    world.at(9 * SECOND, lambda: world.change_lease(OTHER, lease_counter=10))
    with pytest.raises(WorkerIdInUse, match=f"worker id host-1 is in use: lease {OTHER}"):
        resume(world.ports, MINE, world.tasks.signal())
    assert world.table.writes == []


def test_what_another_takes_meanwhile_is_theirs() -> None:
    world = left_behind(SHARD)
    world.at(SECOND, world.steal)
    assert resume(world.ports, MINE, world.tasks.signal()) == ()


def test_whoever_has_nothing_to_resume_does_not_wait() -> None:
    world = left_behind()
    assert resume(world.ports, MINE, world.tasks.signal()) == ()
    assert world.seconds() == 0


def test_a_process_that_is_told_to_stop_resumes_nothing() -> None:
    world = left_behind(SHARD)
    stop = world.tasks.signal()
    world.at(SECOND, stop.set)
    assert resume(world.ports, MINE, stop) == ()
