"""How many leases and bytes each worker has, in one value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.status.fleet_status import FleetFindings, fleet_status
from sublet.decisions.status.work_distribution import (
    GroupLoad,
    WorkDistribution,
    WorkerLoad,
)
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan
from sublet.settings import Settings

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SETTINGS = Settings(application="orders", stream="orders")


def distribution(*leases: Lease, settings: Settings = SETTINGS, **seen: Sighting) -> WorkDistribution:
    """`seen` by the lease key after `shard_`; the others were seen as they are a second ago."""
    sightings = {lease.lease_key: Sighting(lease.lease_counter, lease.actual_owner, NOW - SECOND) for lease in leases}
    return fleet_status(LeaseScan(leases), NOW, settings, FleetFindings(sightings | seen)).distribution


def lease(key: str, owner: str | None = None, kbps: float | None = None) -> Lease:
    return Lease(key, Checkpoint("5"), 7, owner, throughput_kbps=kbps)


def test_distribution_lists_groups_and_workers_with_their_load() -> None:
    found = distribution(
        lease("s1", "zone-a:1", 5.0),
        lease("s2", "zone-a:1", 2.5),
        lease("s3", "zone-a:2"),
        lease("s4", "orders-lambda-0", 1.0),
    )
    assert found.workers == (
        WorkerLoad("orders-lambda-0", "orders-lambda", 1, 1.0, SECOND),
        WorkerLoad("zone-a:1", "zone-a", 2, 7.5, SECOND),
        WorkerLoad("zone-a:2", "zone-a", 1, None, SECOND),
    )
    assert found.groups == (
        GroupLoad("orders-lambda", 1, 1, 4 / 3, 1.0, 8.5 / 3),
        GroupLoad("zone-a", 2, 3, 8 / 3, 7.5, 8.5 * 2 / 3),
    )
    assert (found.target, found.target_kbps) == (2, 8.5 / 3)


def test_ended_leases_are_not_counted_and_unowned_ones_are() -> None:
    gone = Sighting(7, "dead", NOW - timedelta(minutes=2))
    found = distribution(
        Lease("s1", SHARD_END, 7, "zone-a:1"),
        lease("s2", "zone-a:1"),
        lease("s3"),
        lease("s4", "dead"),
        lease("s5", "zone-a:2"),
        s4=gone,
    )
    assert [worker.leases for worker in found.workers] == [1, 1]
    assert (found.target, found.unowned, found.expired) == (2, 1, 1)


def test_a_lease_that_is_drained_is_its_old_owner_s() -> None:
    draining = Lease("s1", Checkpoint("5"), 7, "zone-b:1", checkpoint_owner="zone-a:1")
    assert [worker.worker_id for worker in distribution(draining).workers] == ["zone-a:1"]


def test_distribution_counts_leases_that_moved_within_the_hour() -> None:
    lately, long_ago = NOW - timedelta(minutes=59), NOW - timedelta(minutes=60)
    found = distribution(
        lease("s1", "zone-a:1"),
        lease("s2", "zone-a:1"),
        lease("s3", "zone-a:1"),
        s1=Sighting(7, "zone-a:1", NOW, moved_at=lately),
        s2=Sighting(7, "zone-a:1", NOW, moved_at=long_ago),
        s3=Sighting(7, "zone-a:1", NOW, moved_at=NOW),
    )
    assert found.moved == 2
    assert [worker.took_at for worker in found.workers] == [NOW]


def test_an_empty_table() -> None:
    assert distribution() == WorkDistribution((), (), 0, 0, 0, 0)


def test_the_target_is_no_more_than_a_worker_may_have() -> None:
    few = Settings(application="orders", stream="orders", max_leases_for_worker=1)
    assert distribution(lease("s1", "a:1"), lease("s2", "a:1"), settings=few).target == 1
