"""The lease worker's window as a whole, over several leases."""

from __future__ import annotations

from tests.unit.engine_world import SHARD, EngineWorld, only
from sublet.decisions.window import Outcome


def test_a_window_handles_what_is_there_and_gives_the_lease_back() -> None:
    world = EngineWorld()
    sequence_numbers = world.put("a", "b", "c")
    report = only(world.window())
    assert report.outcome is Outcome.CAUGHT_UP
    assert world.handler.data() == [b"a", b"b", b"c"]
    assert world.table.lease().checkpoint.sequence_number == sequence_numbers[-1]
    assert world.table.lease(SHARD).lease_owner is None
