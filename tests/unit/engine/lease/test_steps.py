"""Acquiring a lease in as few requests as may be, and deleting one whose shard is gone: what was not read is
reported.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

import pytest
from sublet.decisions.manager.lease_cleanup import DeleteReason, LeaseDeletion
from sublet.engine.lease.held import HeldLease, instant
from sublet.engine.lease.steps import acquire_lease, begin, delete_lease, is_held_by
from sublet.metric_names import Metric
from sublet.ports import LeaseTable
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseFence
from sublet.protocol.lease_writes import delete

from tests.doubles.engine_world import SECOND, EngineWorld


@pytest.mark.parametrize(
    ("is_there", "is_ended", "reported"),
    [
        (True, False, [1]),
        (False, False, [1]),
        (True, True, []),
        (False, True, []),
    ],
)
def test_a_loss_is_reported_also_if_the_row_has_gone_already(
    is_there: bool, is_ended: bool, reported: list[float]
) -> None:
    """The answer to our first request may have been lost, and the request repeated."""
    world = EngineWorld()
    if is_ended:
        world.change_lease(checkpoint=SHARD_END)
    lease = world.table.lease()
    if not is_there:
        world.table.real.apply(delete(lease))
    assert delete_lease(LeaseDeletion(lease, DeleteReason.GARBAGE), world.ports) is is_there
    assert world.metrics.values(Metric.DATA_GAP) == reported


def test_a_lease_that_has_changed_is_neither_deleted_nor_reported() -> None:
    world = EngineWorld()
    lease = world.table.lease()
    world.change_lease(lease_counter=lease.lease_counter + 1)
    assert not delete_lease(LeaseDeletion(lease, DeleteReason.GARBAGE), world.ports)
    assert world.metrics.values(Metric.DATA_GAP) == []


@pytest.mark.parametrize(("acquired", "reads"), [(acquire_lease, 0), (partial(acquire_lease, after_crash=True), 1)])
def test_a_row_is_read_before_it_is_acquired_only_to_count_its_owner_s_crash(
    acquired: Callable[[LeaseTable, LeaseFence, str, str], object], reads: int
) -> None:
    world, read = EngineWorld(), list[str]()
    world.table.disturb_get = read.append
    row = acquired(world.ports.table, world.table.lease().fence, "worker", "holder/1")
    assert isinstance(row, Lease)
    assert is_held_by(row, "worker", "holder/1")
    assert len(read) == reads


def test_a_child_waits_for_a_parent_that_is_created_while_it_asks_for_the_time() -> None:
    """Its grandparent has ended meanwhile, and has created the parent, whose children are read whole."""
    world = EngineWorld(leases=False)
    world.put_lease(Lease("child", LATEST, lease_owner="worker", parent_shard_ids=frozenset({"parent"})))
    held = HeldLease(world.table.lease("child"), instant(world.clock), world.ports, 20 * SECOND, world.tasks.signal())
    told = world.stream.service_time()

    def parent_appears() -> datetime:
        world.put_lease(Lease("parent", TRIM_HORIZON))
        return told

    world.stream.service_time = parent_appears  # type: ignore[method-assign]
    assert begin(held, world.ports, world.settings.start_position) is None
    assert world.table.lease("child").start_at is None
