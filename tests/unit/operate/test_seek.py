"""A seek beside a running fleet: every record from the new position is delivered, and an undo restores the positions
exactly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace as replaced
from sublet.errors import SeekRefused, StreamNotAdopted
from sublet.operate.positions.find import places_of
from sublet.operate.positions.planned_seek import PlannedSeek, carry_out, planned, seek_of
from sublet.operate.positions.seek import SeekRun, check_stream, undone_by
from sublet.operate.positions.seek_target import (
    SeekTarget,
    after_record,
    at_application,
    at_place,
    at_positions,
    at_snapshot,
    before_the_last,
)
from sublet.operate.positions.seek_time import place
from sublet.operate.positions.snapshots import snapshot_by_hand
from sublet.operate.rules.seek import MoveEffect, plan_seek, positions_at, positions_like
from sublet.ports import SnapshotStore
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, Position
from sublet.protocol.lease_writes import WriteKind, acquire
from sublet.protocol.snapshot import Snapshot, unreadable
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.write_clauses import SEEK_LEAP
from sublet.settings import StartPosition
from sublet.testing.memory import MemoryStream

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld

HOUR = timedelta(hours=1)
OTHER = "shardId-000000000001"


def put(world: EngineWorld, count: int, first: int) -> None:
    for number in range(first, first + count):
        world.shards.put(f"key-{number % 7}", b"%d" % number)
        world.clock.advance(timedelta(seconds=1))


def consume(world: EngineWorld) -> list[int]:
    """Ticks and windows, until nothing is left. What they handled, in order."""
    before = len(world.handler.finished)
    for _ in range(6):
        world.manager().tick()
        world.window()
        world.clock.advance(timedelta(seconds=1))
    return [int(data) for _, data in world.handler.finished[before:]]


def read_through_a_split() -> tuple[EngineWorld, datetime]:
    """Handled to the tip: ten records, an hour's pause, ten more, a split, ten more. And a time within that pause."""
    world = EngineWorld(NO_WAITING)
    put(world, 10, 0)
    world.clock.advance(HOUR)
    moment = world.clock.now() - HOUR / 2
    put(world, 10, 10)
    world.shards.split(SHARD)
    put(world, 10, 20)
    assert sorted(consume(world)) == list(range(30))
    return world, moment


def seek(world: EngineWorld, moment: datetime) -> SeekRun:
    shards = world.shards.list_shards()
    wanted = positions_at(shards, places_of(shards, moment, world.ports))
    made = SeekRun(plan_seek(world.table.real.scan(), shards, wanted), world.ports, "a test")
    made.run()
    return made


def positions(world: EngineWorld) -> dict[str, Checkpoint]:
    return {lease.lease_key: lease.checkpoint for lease in world.table.real.scan().leases}


def test_seek_to_a_time_replays_later_records_in_order_and_no_others() -> None:
    world, moment = read_through_a_split()
    seek(world, moment)
    again = consume(world)
    assert sorted(again) == list(range(10, 30))
    assert again.index(19) < min(again.index(number) for number in range(20, 30)), "the parent's come first"


@pytest.mark.parametrize("consumed_between", [False, True])
def test_an_undo_is_exact(consumed_between: bool) -> None:
    world, moment = read_through_a_split()
    before = positions(world)
    made = seek(world, moment)
    if consumed_between:
        world.window()
    shards = world.shards.list_shards()
    kept = undone_by(Snapshot("s", world.clock.now(), "", {}), made)
    plan = plan_seek(world.table.real.scan(), shards, positions_like(shards, kept.positions), kept.moved)
    SeekRun(plan, world.ports, "undo").run()
    after = positions(world)
    assert {key: after[key] for key in before} == before
    assert all(after[key].is_shard_end for key in after.keys() - before.keys())
    assert consume(world) == []


def read_through_two_splits() -> EngineWorld:
    """Handled to the tip, a record of each of 40 keys a generation. The rows of the first two generations are cleaned
    up.
    """
    world = EngineWorld(NO_WAITING)
    for first in (0, 40, 80):
        if first:
            for shard in world.shards.list_shards():
                if shard.is_open:
                    world.shards.split(shard.shard_id)
        for number in range(first, first + 40):
            world.shards.put(f"key-{number % 40}", b"%d" % number)
        consume(world)
    consume(world)
    assert len(positions(world)) == 4
    return world


def is_in_order(numbers: list[int]) -> bool:
    """Whether each key's came as they were put."""
    of_keys: dict[int, list[int]] = {}
    for number in numbers:
        of_keys.setdefault(number % 40, []).append(number)
    return all(each == sorted(each) for each in of_keys.values())


def test_grandchildren_wait_for_their_parents_after_a_seek_across_deleted_rows() -> None:
    world = read_through_two_splits()
    grandchildren = positions(world).keys()
    sought(world, at_place(place("earliest"), world.shards.list_shards(), (), world.ports))
    before = len(world.handler.finished)
    world.window(world.item(*grandchildren))
    assert len(world.handler.finished) == before, "they wait, even for a worker that is sent for them alone"
    again = consume(world)
    assert sorted(again) == list(range(120))
    assert is_in_order(again)


@pytest.mark.parametrize("consumed_between", [False, True])
def test_an_undo_across_two_reshards_is_exact(consumed_between: bool) -> None:
    world = read_through_two_splits()
    before = positions(world)
    shards = world.shards.list_shards()
    sought(world, at_place(place("earliest"), shards, (), world.ports))
    if consumed_between:
        world.window()
    sought(world, before_the_last("orders", world.snapshots, shards, world.ports))
    assert consume(world) == []
    assert positions(world) == before, "rows that the seek created are gone again"


def test_undo_ends_shards_that_an_earlier_versions_seek_left_without_rows() -> None:
    """It made rows for the first generation and the last, and not for those between them."""
    world = read_through_two_splits()
    shards, scan = world.shards.list_shards(), world.table.real.scan()
    positions_then = {
        SHARD: Position(SHARD_END),
        **{lease.lease_key: lease.position for lease in scan.leases},
    }
    world.snapshots.keep_snapshot(
        Snapshot("seek-1", world.clock.now(), "seek to earliest", positions_then, moved=tuple(positions_then))
    )
    world.put_lease(Lease(SHARD, TRIM_HORIZON))
    for lease in scan.leases:
        world.change_lease(lease.lease_key, checkpoint=TRIM_HORIZON)
    sought(world, before_the_last("orders", world.snapshots, shards, world.ports))
    assert consume(world) == []


def test_an_undo_leads_back_to_a_first_start_at_latest_behind_a_reshard() -> None:
    """The parent had no lease, because it is not to be read: its children start where a reader opens them."""
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition.parse("LATEST")), leases=False)
    put(world, 10, 0)
    world.shards.split(SHARD)
    put(world, 10, 10)
    world.clock.advance(timedelta(minutes=1))
    world.manager().tick()
    shards = world.shards.list_shards()
    sought(world, at_place(place("earliest"), shards, (), world.ports))
    sought(world, before_the_last("orders", world.snapshots, shards, world.ports))
    world.clock.advance(timedelta(minutes=1))
    assert consume(world) == []


def at_latest_and_never_opened() -> EngineWorld:
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition.parse("LATEST")))
    put(world, 3, 0)
    world.put_lease(Lease(SHARD, LATEST))
    world.clock.advance(timedelta(minutes=1))
    return world


def sought(world: EngineWorld, target: SeekTarget) -> PlannedSeek:
    found = planned("orders", None, world.table.real.scan(), world.shards.list_shards(), target, world.ports)
    carry_out(found, seek_of(found, world.ports), world.snapshots)
    return found


@pytest.mark.parametrize("kind", ["undo", "restore", "like", "an earlier version's"])
def test_back_at_latest_nothing_is_skipped_that_came_since(kind: str) -> None:
    """Opened again, LATEST would be the time of that."""
    world = at_latest_and_never_opened()
    shards = world.shards.list_shards()
    kept = snapshot_by_hand("kept", world.table.real.scan(), world.clock.now(), "", None)
    if kind == "an earlier version's":
        kept = replaced(kept, read_at=None)
    theirs = world.table.real.scan()

    def back() -> SeekTarget:
        if kind == "undo":
            return before_the_last("orders", world.snapshots, shards, world.ports)
        if kind == "like":
            return at_application("other", theirs, None, shards, (), world.ports)
        return at_positions(kept, "seek to snapshot kept", shards, (), world.ports)

    sought(world, at_place(place("earliest"), shards, (), world.ports))
    if kind == "like":
        target = back()
        put(world, 5, 3)
    else:
        put(world, 5, 3)
        target = back()
    found = sought(world, target)
    assert found.plan.moves[0].effect is MoveEffect.SKIPS
    world.clock.advance(timedelta(minutes=5))
    assert consume(world) == list(range(3, 8))


class Killed(BaseException):
    """A process that gets no chance to say how far it came."""


@dataclass
class KilledAfter:
    """A SnapshotStore port whose process is killed when a seek has moved its leases, and before it says so."""

    real: SnapshotStore
    kept: int = 0

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        self.kept += 1
        if self.kept > 1:
            raise Killed
        self.real.keep_snapshot(snapshot)

    def snapshots(self) -> tuple[Snapshot, ...]:
        return self.real.snapshots()

    def delete_snapshot(self, name: str) -> None:
        self.real.delete_snapshot(name)


def test_an_undo_takes_back_a_seek_whose_process_was_killed() -> None:
    world, moment = read_through_a_split()
    before, shards = positions(world), world.shards.list_shards()
    target = at_place(place(moment.isoformat()), shards, (), world.ports)
    found = planned("orders", None, world.table.real.scan(), shards, target, world.ports)
    with pytest.raises(Killed):
        carry_out(found, seek_of(found, world.ports), KilledAfter(world.snapshots))
    assert positions(world) != before
    undo = before_the_last("orders", world.snapshots, shards, world.ports)
    assert undo.what.endswith(", which did not finish")
    sought(world, undo)
    after = positions(world)
    assert {key: after[key] for key in before} == before
    assert consume(world) == []


def test_a_snapshot_of_a_clock_that_was_ahead_is_not_the_last_seek() -> None:
    world = EngineWorld(NO_WAITING, shards=2)
    put(world, 5, 0)
    consume(world)
    shards = world.shards.list_shards()
    world.snapshots.keep_snapshot(
        Snapshot("ahead", world.clock.now() + HOUR, "a seek", {SHARD: Position(TRIM_HORIZON)}, (SHARD,))
    )
    found = sought(world, at_place(place("earliest"), shards, (OTHER,), world.ports))
    assert {move.shard.shard_id for move in found.plan.moves} == {OTHER}
    assert before_the_last("orders", world.snapshots, shards, world.ports).only == (OTHER,)


OTHER_STREAM = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/other", datetime(2026, 1, 1, tzinfo=UTC))


def taken(world: EngineWorld, target: str) -> None:
    sought(world, at_place(place(target), world.shards.list_shards(), (), world.ports))


def test_snapshot_of_a_person_stays_whatever_its_name() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    consume(world)
    name = f"seek-{world.clock.now():%Y%m%dT%H%M%S.%f}Z"
    for each in ("seek-before-release", name):
        world.snapshots.keep_snapshot(
            snapshot_by_hand(each, world.table.real.scan(), world.clock.now(), "anna@desk", None)
        )
    for _ in range(7):
        world.clock.advance(HOUR)
        taken(world, "earliest")
        consume(world)
    kept = [each.name for each in world.snapshots.snapshots()]
    assert kept[:2] == ["seek-before-release", name] or kept[:2] == [name, "seek-before-release"]
    assert len(kept) == 2 + 5


def test_an_undo_is_refused_if_the_last_seek_s_snapshot_cannot_be_read() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    consume(world)
    shards = world.shards.list_shards()
    taken(world, "earliest")
    world.snapshots.keep_snapshot(unreadable("seek-20250101T000000.000000Z", "it is damaged"))
    assert before_the_last("orders", world.snapshots, shards, world.ports).what.startswith("undo seek to earliest")
    world.snapshots.keep_snapshot(unreadable("seek-20991231T000000.000000Z", "it is damaged"))
    with pytest.raises(SeekRefused, match="the snapshot of the last seek, seek-20991231"):
        before_the_last("orders", world.snapshots, shards, world.ports)
    with pytest.raises(SeekRefused, match=r"seek-2099\S+ of orders cannot be read: it is damaged"):
        at_snapshot("seek-20991231T000000.000000Z", "orders", world.snapshots, shards, (), world.ports)


@pytest.mark.parametrize(
    ("number", "stream", "said"),
    [
        ("1", None, "1 is not in shard"),
        ("9" * 56, None, "9999 is not in shard"),
        (None, OTHER_STREAM, "another stream, arn:aws:kinesis:eu-west-1:123456789012:stream/other"),
    ],
)
def test_positions_of_another_stream_are_refused(number: str | None, stream: StreamIdentity | None, said: str) -> None:
    """No worker could read on from there, and every later look would refuse the leases."""
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    consume(world)
    before, shards = positions(world), world.shards.list_shards()
    known = {SHARD: Position(before[SHARD])} if number is None else {SHARD: Position(Checkpoint(number))}
    kept = Snapshot("kept", world.clock.now(), "by hand", known, stream=stream)
    with pytest.raises(SeekRefused, match=said):
        sought(world, at_positions(kept, "seek to kept.json", shards, (), world.ports))
    assert positions(world) == before


def test_a_lease_at_another_stream_s_position_can_be_moved_to_its_own() -> None:
    """As an earlier version, or a hand, may have left it."""
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    world.put_lease(Lease(SHARD, Checkpoint("1")))
    shards, scan = world.shards.list_shards(), world.table.real.scan()
    target = at_place(place("earliest"), shards, (), world.ports)
    with pytest.raises(StreamNotAdopted):
        planned("orders", None, scan, shards, target, world.ports)
    known = world.ports.stream.describe().identity
    found = planned("orders", known, scan, shards, target, world.ports)
    carry_out(found, seek_of(found, world.ports), world.snapshots)
    assert sorted(consume(world)) == [0, 1, 2]


def test_seek_rewinds_a_child_of_leased_parents_to_trim_horizon_and_not_latest() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    left, _ = world.shards.split(SHARD)
    put(world, 5, 3)
    shards = world.shards.list_shards()
    known = {SHARD: Position(SHARD_END), left: Position(LATEST)}
    kept = Snapshot("kept", world.clock.now(), "by hand", known)
    target = at_positions(kept, "to snapshot kept", shards, (), world.ports)
    assert target.positions[left] == Position(TRIM_HORIZON)


def test_owner_in_a_call_loses_its_lease_to_a_seek_and_overwrites_nothing() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 10, 0)
    world.window()
    put(world, 10, 10)
    moved: list[SeekRun] = []

    def meanwhile(_: object) -> None:
        if not moved:
            moved.append(seek(world, world.began))

    world.handler.script = meanwhile
    world.window()
    assert positions(world)[SHARD] == TRIM_HORIZON
    assert Counter(consume(world)) == Counter(range(20))


def test_seek_takes_the_lease_from_an_owner_that_has_not_checkpointed() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 10, 0)
    moved: list[SeekRun] = []

    def meanwhile(_: object) -> None:
        if not moved:
            moved.append(seek(world, world.began))

    world.handler.script = meanwhile
    world.window()
    assert [move.lease_key for move in moved[0].plan.moves] == [SHARD]
    assert positions(world)[SHARD] == TRIM_HORIZON
    assert set(consume(world)) == set(range(10)), "what it had in hand comes again"


def test_java_owner_cannot_renew_a_moved_lease() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    world.table.real.apply(acquire(world.table.lease().fence, "10.0.0.1:java", "none"))
    seen = world.table.lease()
    seek(world, world.clock.now())
    row = world.table.lease()
    assert row.lease_owner is None
    assert row.lease_counter > seen.lease_counter + 1, "Java takes a counter that is one higher for its own"
    assert row.checkpoint.is_sequence_number


def test_a_child_that_began_between_plan_and_write_goes_back_behind_its_parent() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    left, right = world.shards.split(SHARD)
    shards = world.shards.list_shards()
    world.change_lease(checkpoint=SHARD_END)
    for child in shards[1:]:
        world.put_lease(Lease(child.shard_id, TRIM_HORIZON, parent_shard_ids=child.parent_shard_ids))
    plan = plan_seek(world.table.real.scan(), shards, {shard.shard_id: Position(TRIM_HORIZON) for shard in shards})
    world.change_lease(left, checkpoint=Checkpoint("5"))
    made = SeekRun(plan, world.ports, "a test")
    made.run()
    assert positions(world) == dict.fromkeys((SHARD, left, right), TRIM_HORIZON)
    assert made.before == {SHARD: Position(SHARD_END), left: Position(Checkpoint("5"))}


def test_a_lease_that_ends_between_plan_and_write_is_left_and_said() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    shards = world.shards.list_shards()
    wanted = positions_at(shards, places_of(shards, world.began, world.ports))
    world.change_lease(checkpoint=Checkpoint("5"))
    plan = plan_seek(world.table.real.scan(), shards, wanted)
    world.change_lease(checkpoint=SHARD_END)
    with pytest.raises(SeekRefused, match=f"lease {SHARD} ended or began after the plan was made"):
        SeekRun(plan, world.ports, "a test").run()
    assert positions(world)[SHARD] == SHARD_END


def test_leases_of_another_stream_are_refused() -> None:
    """Its shard ids are the same, and its sequence numbers would stop every shard of ours."""
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    world.manager().tick()
    leases, shards = world.table.real.scan().leases, world.shards.list_shards()
    known = world.sightings.load().stream
    check_stream("orders", known, leases, shards, world.ports)
    check_stream("orders", None, leases, shards, world.ports)
    other = MemoryStream(clock=world.clock, name="invoices")
    ports = replace(world.ports, stream=other)
    with pytest.raises(StreamNotAdopted, match="invoices"):
        check_stream("orders", known, leases, other.list_shards(), ports)
    earlier = [replace(leases[0], checkpoint=Checkpoint("5"))]
    with pytest.raises(StreamNotAdopted):
        check_stream("orders", None, earlier, shards, world.ports)


def test_a_seek_goes_on_after_one_record_of_one_shard() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 6, 0)
    numbers = [record.sequence_number for record in world.shards.logs[0].read(0, 100, None)[0]]
    consume(world)
    shards = world.shards.list_shards()
    found = sought(world, after_record(numbers[2], shards, (SHARD,), world.ports))
    assert found.what == f"seek to after {numbers[2]}"
    assert consume(world) == [3, 4, 5]


@pytest.mark.parametrize(
    ("number", "only", "said"),
    [
        ("5", (), "name the shard with --shard"),
        ("5", ("shardId-9",), "name the shard with --shard"),
        ("SHARD_END", (SHARD,), "'SHARD_END' is not a sequence number"),
        ("5:x", (SHARD,), "'5:x' is not a sequence number"),
        ("9" * 56, (SHARD,), "is not in shard"),
    ],
)
def test_seek_after_a_record_of_another_shard_is_refused(number: str, only: tuple[str, ...], said: str) -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    consume(world)
    with pytest.raises(SeekRefused, match=said):
        sought(world, after_record(number, world.shards.list_shards(), only, world.ports))


def test_a_lost_answer_counts_once_and_the_undo_still_knows_where_it_was() -> None:
    world = EngineWorld(NO_WAITING)
    put(world, 3, 0)
    consume(world)
    before = world.table.lease()
    world.table.lose_response_of(WriteKind.SEEK)
    made = seek(world, world.began)
    assert made.before == {SHARD: before.position}
    row = world.table.lease()
    assert isinstance(row, Lease)
    assert (row.checkpoint, row.lease_counter) == (TRIM_HORIZON, before.lease_counter + SEEK_LEAP)
