"""The state of an application, from its leases and what was seen of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.session.handled_position import HandledPosition, position_of
from sublet.decisions.status.fleet_status import FOUND_QUIET_LATELY, FleetFindings, FleetStatus, fleet_status
from sublet.decisions.status.shard_status import ShardState
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.decisions.streams.stream_status import gone_streams
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.stream_key import StreamKey, in_stream
from sublet.settings import Settings

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SETTINGS = Settings(application="orders", stream="orders", failover_time=timedelta(seconds=30))
MINUTE = timedelta(minutes=1)


def status(*leases: Lease, seen: timedelta = timedelta(0)) -> FleetStatus:
    """Of leases that were all seen as they are so long ago."""
    sightings = {lease.lease_key: Sighting(lease.lease_counter, lease.actual_owner, NOW - seen) for lease in leases}
    return fleet_status(LeaseScan(leases), NOW, SETTINGS, FleetFindings(sightings))


@pytest.mark.parametrize(
    ("lease", "seconds", "state"),
    [
        (Lease("shard-1", TRIM_HORIZON), 0, ShardState.UNOWNED),
        (Lease("shard-1", TRIM_HORIZON, 7, "worker"), 30, ShardState.HELD),
        (Lease("shard-1", TRIM_HORIZON, 7, "worker"), 31, ShardState.EXPIRED),
        (Lease("shard-1", TRIM_HORIZON, 7, "next", checkpoint_owner="worker"), 1, ShardState.MOVING),
        (Lease("shard-1", SHARD_END, 7, "worker"), 31, ShardState.ENDED),
    ],
)
def test_status_tells_each_state_of_a_shard(lease: Lease, seconds: int, state: ShardState) -> None:
    (shard,) = status(lease, seen=timedelta(seconds=seconds)).shards
    assert shard.state is state
    assert shard.idle == timedelta(seconds=seconds)


@pytest.mark.parametrize(("ago", "behind"), [(timedelta(0), timedelta(0)), (FOUND_QUIET_LATELY, None)])
def test_a_free_shard_that_a_tick_found_quiet_lately_has_nothing_waiting(
    ago: timedelta, behind: timedelta | None
) -> None:
    found = {"shard-1": UnreadShard("100", None, quiet_until=NOW - ago)}
    lease = Lease("shard-1", Checkpoint("100"), 7)
    (shard,) = fleet_status(LeaseScan((lease,)), NOW, SETTINGS, FleetFindings(unread=found)).shards
    assert shard.lag == behind


def test_an_unwatched_owner_counts_as_alive() -> None:
    (shard,) = fleet_status(LeaseScan((Lease("shard-1", TRIM_HORIZON, 7, "worker"),)), NOW, SETTINGS).shards
    assert shard.state is ShardState.HELD


def test_workers_are_those_that_live() -> None:
    fleet = status(
        Lease("shard-2", TRIM_HORIZON, 1, "first"),
        Lease("shard-1", TRIM_HORIZON, 1, "first"),
        Lease("shard-3", TRIM_HORIZON, 1, "second"),
        Lease("shard-4", SHARD_END, 1, "third"),
        Lease("shard-5", TRIM_HORIZON),
    )
    assert fleet.workers == {"first": 2, "second": 1}
    assert fleet.states == {ShardState.HELD: 3, ShardState.ENDED: 1, ShardState.UNOWNED: 1}
    assert [shard.shard_id for shard in fleet.shards] == [f"shard-{number}" for number in range(1, 6)]


def test_rows_that_are_no_leases_are_listed() -> None:
    row = MalformedRow("shard-1", "no checkpoint")
    assert fleet_status(LeaseScan((), (row,)), NOW, SETTINGS).malformed == (row,)


NUMBER = "49590338271490256608559692538361571095921575989136588898"


@pytest.mark.parametrize(
    ("checkpoint", "number", "behind", "position"),
    [
        (Checkpoint(NUMBER), NUMBER, 0, HandledPosition(NOW - MINUTE, timedelta(0))),
        (Checkpoint(NUMBER), NUMBER, 5_000, HandledPosition(NOW - MINUTE, timedelta(seconds=5))),
        (Checkpoint(NUMBER), NUMBER + "1", 5_000, HandledPosition(None, MINUTE)),
        (TRIM_HORIZON, NUMBER, 90_000, HandledPosition(None, timedelta(seconds=90))),
        (TRIM_HORIZON, None, 0, HandledPosition(None, timedelta(0))),
        (TRIM_HORIZON, None, 5_000, HandledPosition(None, None)),
    ],
)
def test_position_has_the_arrival_of_the_last_handled_record_and_its_lag(
    checkpoint: Checkpoint, number: str | None, behind: int, position: HandledPosition
) -> None:
    """One minute ago. One that is not the checkpointed one is not handled: it waits since then."""
    records = () if number is None else (StreamRecord(number, b"", "key", NOW - MINUTE),)
    assert position_of(Lease("shard-1", checkpoint), Page(records, 0, behind), NOW) == position


def test_the_fleets_lag_is_that_of_the_shard_that_is_furthest_behind() -> None:
    leases = [Lease(f"shard-{n}", TRIM_HORIZON, lease_owner="w", throughput_kbps=n * 1.5) for n in range(3)]
    positions = {f"shard-{n}": HandledPosition(None, n * MINUTE) for n in range(2)}
    fleet = fleet_status(LeaseScan(tuple(leases)), NOW, SETTINGS, FleetFindings(positions=positions))
    assert fleet.lag == MINUTE
    assert [(shard.kbps, shard.lag) for shard in fleet.shards][1:] == [(1.5, MINUTE), (3.0, None)]
    assert status().lag is None


def of_ours(silent_for: timedelta) -> Lease:
    report = LagReport(NOW - silent_for, timedelta(0))
    return Lease("shard-1", Checkpoint(NUMBER), 7, "w", holder="w#1", holder_counter=7, lag_report=report)


@pytest.mark.parametrize(
    ("lease", "sighting", "idle", "expired"),
    [
        (of_ours(9 * MINUTE), None, 9 * MINUTE, 1),
        (of_ours(MINUTE / 4), None, MINUTE / 4, 0),
        (of_ours(9 * MINUTE), Sighting(6, "w", NOW - 10 * MINUTE), 9 * MINUTE, 1),
        (of_ours(9 * MINUTE), Sighting(7, "w", NOW - MINUTE / 4), 9 * MINUTE, 0),
        (replace(of_ours(9 * MINUTE), lease_owner="java", lease_counter=8), None, None, None),
        (Lease("shard-1", Checkpoint(NUMBER), 7, "java"), None, None, None),
        (Lease("shard-1", Checkpoint(NUMBER), 7, "java"), Sighting(6, "java", NOW - MINUTE), None, None),
        (
            Lease("shard-1", Checkpoint(NUMBER), 7, "java"),
            Sighting(7, "java", NOW - MINUTE / 4),
            MINUTE / 4,
            0,
        ),
        (Lease("shard-1", Checkpoint(NUMBER), 7, "java"), Sighting(7, "java", NOW - MINUTE), MINUTE, 1),
    ],
)
def test_owners_last_write_is_known_from_its_row_or_a_current_sighting(
    lease: Lease, sighting: Sighting | None, idle: timedelta | None, expired: int | None
) -> None:
    sightings = {} if sighting is None else {lease.lease_key: sighting}
    fleet = fleet_status(LeaseScan((lease,)), NOW, SETTINGS, FleetFindings(sightings))
    (shard,) = fleet.shards
    assert (shard.idle, fleet.distribution.expired) == (idle, expired)
    assert shard.is_owner_gone == bool(expired)
    assert [worker.idle for worker in fleet.distribution.workers] == ([] if expired else [idle])


def test_leases_of_a_deleted_stream_are_counted_and_not_judged() -> None:
    """Nothing of it can be read, so what its row last said of records that wait is void."""
    old, new = StreamKey("1" * 12, "orders", 1_700_000_000), StreamKey("1" * 12, "orders", 1_700_000_900)
    gone = gone_streams({old: KnownStream(NOW), new: KnownStream(NOW)})
    leases = tuple(Lease(in_stream(key, "shardId-000000000000"), TRIM_HORIZON) for key in (old, new))
    found = fleet_status(LeaseScan(leases), NOW, SETTINGS, FleetFindings(gone=gone))
    assert [shard.shard_id for shard in found.shards] == [leases[1].lease_key]
    assert found.of_gone == 1


def test_an_epoch_that_is_no_time_tells_no_newer_stream() -> None:
    """A KCL fleet may number its streams as it likes."""
    streams = {StreamKey("1" * 12, "orders", epoch): KnownStream(NOW) for epoch in (1, 2)}
    assert not gone_streams(streams)
