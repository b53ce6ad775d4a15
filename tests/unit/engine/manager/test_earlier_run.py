"""A process that starts again under its worker id, and one that starts under another's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.earlier_run import claims_of_earlier_run
from sublet.errors import WorkerIdInUse
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import delete

from tests.doubles.engine_world import CONTINUOUS, SECOND, SHARD, EngineWorld

MINE = replace(CONTINUOUS, worker_id="host-1")
OTHER = "shardId-000000000001"


def left_behind(*lease_keys: str) -> EngineWorld:
    world = EngineWorld(MINE, shards=2)
    for key in lease_keys:
        world.change_lease(key, lease_owner="host-1", holder="dead/window-1", lease_counter=9)
    return world


def test_earlier_run_is_resumed_when_its_counter_stands_for_a_heartbeat() -> None:
    world = left_behind(SHARD)
    (choice,) = claims_of_earlier_run(world.ports, MINE, world.tasks.signal(), ControlWatch(world.ports))
    assert (choice.lease.fence, choice.why) == (world.table.lease().fence, ClaimReason.EXPIRED)
    assert world.seconds() < MINE.failover_time.total_seconds() / 2


def test_a_twin_is_refused_by_name_and_has_written_nothing() -> None:
    world = left_behind(SHARD, OTHER)
    world.at(9 * SECOND, lambda: world.change_lease(OTHER, lease_counter=10))
    with pytest.raises(WorkerIdInUse, match=f"worker id host-1 is in use: another process heartbeats lease {OTHER}"):
        claims_of_earlier_run(world.ports, MINE, world.tasks.signal(), ControlWatch(world.ports))
    assert world.table.writes == []


def test_earlier_run_is_left_to_a_worker_that_stole_its_lease() -> None:
    world = left_behind(SHARD)
    world.at(SECOND, world.steal)
    assert claims_of_earlier_run(world.ports, MINE, world.tasks.signal(), ControlWatch(world.ports)) == ()


def test_a_row_that_disappears_or_becomes_malformed_is_not_resumed() -> None:
    world = left_behind(SHARD, OTHER)
    malformed = {**encode_row(world.table.lease(OTHER)), "checkpoint": {"S": "yesterday"}}
    world.at(SECOND, lambda: world.table.real.apply(delete(world.table.lease())))
    world.at(SECOND, lambda: world.table.real.put_row(malformed))
    assert claims_of_earlier_run(world.ports, MINE, world.tasks.signal(), ControlWatch(world.ports)) == ()


def test_a_process_with_nothing_to_resume_does_not_wait() -> None:
    world = left_behind()
    assert claims_of_earlier_run(world.ports, MINE, world.tasks.signal(), ControlWatch(world.ports)) == ()
    assert world.seconds() == 0


def test_a_stopping_process_resumes_nothing() -> None:
    world = left_behind(SHARD)
    stop = world.tasks.signal()
    world.at(SECOND, stop.set)
    assert claims_of_earlier_run(world.ports, MINE, stop, ControlWatch(world.ports)) == ()


def test_twins_that_start_before_either_has_a_lease_are_fenced_as_any_two_owners_are() -> None:
    """Neither can tell the other's leases from its own by their names, and both go on: as one worker of two halves."""
    world = EngineWorld(MINE, shards=2)
    assert [
        claims_of_earlier_run(world.ports, MINE, world.tasks.signal(), ControlWatch(world.ports)) for _ in range(2)
    ] == [
        (),
        (),
    ]
    world.put("a", "b", of=2)
    items = [replace(world.item(item_id=twin), worker_id="host-1") for twin in ("twin-1", "twin-2")]
    twins = [world.tasks.spawn(partial(world.window, item)) for item in items]
    reports = [twin.result() for twin in twins]
    taken = [lease.lease_key for report in reports for lease in report.leases if lease.user_records]
    assert taken == [SHARD], "each lease is the one's or the other's"
    assert sorted(world.handler.data()) == [b"a", b"b"]
