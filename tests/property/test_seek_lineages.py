"""A seek in a stream of any age: for any history of reshards, of reading and of cleanup, what comes after it is in
order, all of it, and only that; an undo and a restore lead to exactly what their positions would have led to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.manager.lease_cleanup import plan_lease_cleanup
from sublet.decisions.manager.shard_sync import plan_shard_sync
from sublet.decisions.session.shard_end import BlockedByParents, may_begin
from sublet.engine.lease.steps import plan_end
from sublet.operate.positions.planned_seek import carry_out, planned, seek_of
from sublet.operate.positions.seek_target import SeekTarget, at_place, at_snapshot, before_the_last
from sublet.operate.positions.seek_time import SeekTime, place
from sublet.operate.positions.snapshots import snapshot_by_hand
from sublet.operate.rules.seek import END
from sublet.protocol.checkpoint import LATEST, Checkpoint
from sublet.protocol.conditions import Row
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import create, delete
from sublet.protocol.shard import child_of
from sublet.settings import StartPosition

from tests.doubles.engine_world import EngineWorld

SECOND = timedelta(seconds=1)
EARLIEST = place("earliest")


@dataclass(frozen=True)
class Record:
    number: int
    checkpoint: Checkpoint
    arrived_at: datetime


@dataclass
class Fleet:
    """Reads by the rules of the engine, one record at a time, any shard that may begin."""

    first: int
    start: StartPosition
    chance: Random
    records: dict[str, list[Record]] = field(default_factory=dict)
    delivered: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = EngineWorld(shards=self.first, leases=False)
        self.table, self.stream = self.world.table.real, self.world.shards
        self.put(2)

    def put(self, count: int) -> None:
        for _ in range(count):
            number = sum(map(len, self.records.values())) + 1
            shard_id = self.stream.shard_taking(key := f"key-{self.chance.random()}")
            arrived_at = self.world.clock.now()
            record = Record(number, Checkpoint(self.stream.put(key, b"%d" % number)), arrived_at)
            self.records.setdefault(shard_id, []).append(record)
            self.world.clock.advance(SECOND)

    def reshard(self) -> None:
        is_open = [shard for shard in self.stream.list_shards() if shard.is_open]
        if self.chance.random() < 0.4 and len(is_open) > 1:
            is_open.sort(key=lambda shard: shard.hash_key_range)
            left = self.chance.randrange(len(is_open) - 1)
            self.stream.merge(is_open[left].shard_id, is_open[left + 1].shard_id)
        elif len(is_open) < 6:
            self.stream.split(self.chance.choice(is_open).shard_id)

    def tick(self) -> None:
        leases, shards = self.leases(), self.stream.list_shards(None if self.leases() else self.start)
        for new in plan_shard_sync(leases, [], shards, self.start).create:
            self.table.apply(create(new.lease))
            if new.lease.checkpoint == LATEST:
                self.table.put_row(encode_row(replace(new.lease, start_at=self.world.clock.now())))
        for deletion in plan_lease_cleanup(leases, shards):
            self.table.apply(delete(deletion.lease))

    def read(self) -> bool:
        """False: nothing can be read, and no shard can be ended."""
        ready = [lease for lease in self.leases() if self._may_read(lease)]
        self.chance.shuffle(ready)
        return any(self._read(lease) for lease in ready)

    def _may_read(self, lease: Lease) -> bool:
        return may_begin(lease, [self.table.get(parent) for parent in lease.parent_shard_ids])

    def _read(self, lease: Lease) -> bool:
        for record in self.records.get(lease.shard_id, ()):
            if _follows(record, lease):
                self.delivered.append((lease.shard_id, record.number))
                self._put(replace(lease, checkpoint=record.checkpoint, start_at=None))
                return True
        shards = {shard.shard_id: shard for shard in self.stream.list_shards()}
        if shards[lease.shard_id].is_open:
            return False
        children = [child_of(s) for s in shards.values() if lease.shard_id in s.parent_shard_ids]
        plan = plan_end(lease, children, self.world.ports)
        if isinstance(plan, BlockedByParents):
            return False
        for child in plan.create:
            self.table.apply(create(child))
        self._put(replace(lease, checkpoint=END.checkpoint, start_at=None, child_shard_ids=plan.child_shard_ids))
        return True

    def _put(self, lease: Lease) -> None:
        self.table.put_row(encode_row(replace(lease, lease_counter=lease.lease_counter + 1)))

    def leases(self) -> tuple[Lease, ...]:
        return self.table.scan().leases

    def live(self, history: str) -> None:
        """Each letter is a step: put, reshard, tick, read, read much."""
        for letter in history:
            match letter:
                case "p":
                    self.put(2)
                case "x":
                    self.reshard()
                case "t":
                    self.tick()
                case "r":
                    self.read()
                case _:
                    self.read_on()

    def read_on(self) -> list[int]:
        """Until nothing is left. Returns what came."""
        before = len(self.delivered)
        for _ in range(3 * len(self.stream.list_shards()) + 3):
            self.tick()
            while self.read():
                if self.chance.random() < 0.2:
                    self.tick()
        return [number for _, number in self.delivered[before:]]

    def is_in_order(self, since: int) -> bool:
        """Whether no record came after one of a descendant of its shard."""
        parents = {shard.shard_id: shard.parent_shard_ids for shard in self.stream.list_shards()}
        ancestors: dict[str, set[str]] = {}
        for shard_id in sorted(parents):
            ancestors[shard_id] = set(parents[shard_id]).union(*(ancestors[p] for p in parents[shard_id]))
        over: set[str] = set()
        for shard_id, _ in self.delivered[since:]:
            if shard_id in over:
                return False
            over |= ancestors[shard_id]
        return True

    def would_read_on(self, rows: Mapping[str, Row]) -> list[int]:
        """What would come if the table had these rows."""
        now, chance, delivered = dict(self.table.rows()), self.chance.getstate(), list(self.delivered)
        self._replace_rows(rows)
        found = self.read_on()
        self._replace_rows(now)
        self.delivered = delivered
        self.chance.setstate(chance)
        return found

    def _replace_rows(self, rows: Mapping[str, Row]) -> None:
        for key in list(self.table.rows()):
            self.table.delete_row(key)
        for row in rows.values():
            self.table.put_row(row)

    # What an operator does

    def seek(self, seconds: int) -> datetime:
        """To so many seconds after the first record; 0: to the earliest. Returns the time."""
        moment = min(self.world.began + seconds * SECOND, self.world.clock.now())
        self.seek_to(EARLIEST if seconds == 0 else place(moment.isoformat()))
        return moment

    def seek_to(self, to: SeekTime, *only: str) -> None:
        self._carry_out(at_place(to, self.stream.list_shards(), only, self.world.ports))

    def undo(self) -> None:
        shards = self.stream.list_shards()
        self._carry_out(before_the_last("orders", self.world.snapshots, shards, self.world.ports))

    def take_snapshot(self) -> None:
        now = self.world.clock.now()
        self.world.snapshots.keep_snapshot(snapshot_by_hand("mine", self.table.scan(), now, "", None))

    def restore(self) -> None:
        shards, ports = self.stream.list_shards(), self.world.ports
        self._carry_out(at_snapshot("mine", "orders", self.world.snapshots, shards, (), ports))

    def _carry_out(self, target: SeekTarget) -> None:
        ports = self.world.ports
        found = planned("orders", None, self.table.scan(), self.stream.list_shards(), target, ports)
        carry_out(found, seek_of(found, ports), self.world.snapshots)


def _follows(record: Record, lease: Lease) -> bool:
    if lease.start_at is not None:
        return record.arrived_at >= lease.start_at
    return not lease.checkpoint.is_sequence_number or record.checkpoint > lease.checkpoint


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """After any history, with at least one lease."""
    start = StartPosition.parse(draw(st.sampled_from(["TRIM_HORIZON", "LATEST"])))
    fleet = Fleet(draw(st.integers(1, 3)), start, Random(draw(st.integers(0, 1000))))
    fleet.live(draw(st.text("pxx", max_size=6)))
    fleet.tick()
    fleet.live(draw(histories))
    return fleet


histories = st.text("ppxxttrrrR", max_size=30)


@given(fleets(), st.integers(0, 40), histories)
def test_a_seek_repeats_all_records_since_a_time_once_and_in_order(fleet: Fleet, seconds: int, after: str) -> None:
    moment = fleet.seek(seconds)
    since = len(fleet.delivered)
    fleet.live(after)
    fleet.read_on()
    came = Counter(number for _, number in fleet.delivered[since:])
    wanted = [r.number for of in fleet.records.values() for r in of if r.arrived_at >= moment]
    assert came == Counter(wanted)
    assert fleet.is_in_order(since)


@given(fleets(), st.integers(0, 40), st.sampled_from(["", "r", "rrr", "R", "rrtrr"]))
def test_undo_restores_the_deliveries_as_without_the_seek(fleet: Fleet, seconds: int, between: str) -> None:
    """A shard that the seek left where it was keeps what it has handled since."""
    rows = dict(fleet.table.rows())
    fleet.seek(seconds)
    if not fleet.world.snapshots.snapshots()[-1].moved:
        return
    sought = len(fleet.delivered)
    fleet.live(between)
    fleet.undo()
    since = len(fleet.delivered)
    wanted = Counter(fleet.would_read_on(rows))
    came = Counter(fleet.read_on())
    assert not came - wanted
    assert not wanted - came - Counter(number for _, number in fleet.delivered[sought:since])
    assert fleet.is_in_order(since)


@given(fleets(), histories)
def test_restore_delivers_exactly_as_from_the_snapshot(fleet: Fleet, after: str) -> None:
    rows = dict(fleet.table.rows())
    fleet.take_snapshot()
    fleet.live(after)
    fleet.restore()
    since = len(fleet.delivered)
    wanted = fleet.would_read_on(rows)
    assert Counter(fleet.read_on()) == Counter(wanted)
    assert fleet.is_in_order(since)


@given(fleets(), st.integers(0, 20))
def test_seek_of_one_shard_loses_nothing_and_keeps_order(fleet: Fleet, choice: int) -> None:
    shards = fleet.stream.list_shards()
    shard_id = shards[choice % len(shards)].shard_id
    rows = dict(fleet.table.rows())
    fleet.seek_to(EARLIEST, shard_id)
    since = len(fleet.delivered)
    wanted = fleet.would_read_on(rows)
    came = Counter(fleet.read_on())
    assert not Counter(wanted) - came
    assert max(came.values(), default=1) == 1
    assert fleet.is_in_order(since)


def beside_an_ended_parent(fleet: Fleet) -> list[Lease]:
    """Unfinished leases of which another parent of their merge has a row and has ended."""
    leases = {lease.shard_id: lease for lease in fleet.leases()}
    return [
        lease
        for lease in leases.values()
        for parents in (shard.parent_shard_ids for shard in fleet.stream.list_shards())
        if lease.shard_id in parents and not lease.is_ended
        if any(other in leases and leases[other].is_ended for other in parents)
    ]


@given(fleets(), st.integers(0, 20), histories)
def test_the_deleted_row_of_a_merges_parent_comes_back_if_the_other_parent_has_ended(
    fleet: Fleet, choice: int, after: str
) -> None:
    """Its records may be repeated, since nobody knows how far it was read."""
    for step in "xprrxprrrxprrrrxrrrr":
        if unfinished := beside_an_ended_parent(fleet):
            break
        fleet.live(step)
    else:
        return
    rows = dict(fleet.table.rows())
    fleet.table.delete_row(unfinished[choice % len(unfinished)].lease_key)
    since = len(fleet.delivered)
    wanted = fleet.would_read_on(rows)
    fleet.tick()
    fleet.live(after)
    fleet.read_on()
    assert set(wanted) <= {number for _, number in fleet.delivered[since:]}
    assert fleet.is_in_order(since)
