"""Worlds with an operator who seeks, undoes, skips, restores, pauses, releases and drains, under our fleet and Java's.
What the operator does is the commands' own code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from sublet.decisions.session.read_position import is_unopened
from sublet.errors import SeekRefused, SubletError
from sublet.operate.pausing import ApplicationControl
from sublet.operate.positions.planned_seek import PlannedSeek, carry_out, planned, seek_of
from sublet.operate.positions.seek import SeekRun
from sublet.operate.positions.seek_target import SeekTarget, at_place, at_positions, before_the_last
from sublet.operate.positions.seek_time import place
from sublet.operate.positions.skip import planned_skip, skip
from sublet.operate.positions.snapshots import BY_HAND, seeks_made, snapshot_by_hand
from sublet.operate.rules.seek import BEGINNING, LeaseMove, MoveEffect, SeekPlan
from sublet.ports import Applied, Ports, Refused
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.control import Order
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow, Position
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, apply_to
from sublet.protocol.records import UserRecord
from sublet.protocol.shard import Shard
from sublet.protocol.snapshot import Snapshot
from sublet.settings import Settings
from sublet.testing.memory import MemoryLog
from sublet.testing.simulation.control import ControlOfWorld
from sublet.testing.simulation.ledger import ShardTruth
from sublet.testing.simulation.ports import OddError, SimMetrics, SimStream
from sublet.testing.simulation.producer_and_operator import all_wanted
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Process, SimTasks, SkewedClock
from sublet.testing.simulation.sightings import SimSightingStore
from sublet.testing.simulation.world import World

from tests.simulation.mutations import UNCHANGED, Mutation
from tests.simulation.seeking import BEGINS_WITHIN, may_seek, set_clocks_wrong
from tests.simulation.simulation import JavaNeighbours, draw_java

FILTER = '{"Filters": [{"Pattern": "{\\"data\\": {\\"kind\\": [\\"wanted\\"]}}"}]}'
FORMS = ((FILTER, True), (None, False), (FILTER, False))
"""How handlers get records, other than each user record of each aggregate: `filter_criteria` and `deaggregate`."""

DRAIN_TIMEOUT = timedelta(minutes=3)
PLANS_THAT_WAIT = 0.3
"""Of the plans, how many wait while a colleague moves a lease of theirs."""


@dataclass(slots=True)
class OperatorTable:
    """The LeaseTable port of the operator. A write that would break a rule of these worlds is refused, as if it came
    too late.
    """

    world: World
    process: Process
    owners: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    """By lease key: the last owner that was seen, and since when."""
    moved_to: dict[str, Position] = field(default_factory=dict)
    is_whole: bool = False
    """Whether the operator moves whole lineages by the commands' own plans, so that no move is refused for its
    order.
    """

    def scan(self) -> LeaseScan:
        self.world.step(self.process)
        rows = [decode_row(row) for _, row in sorted(self.world.table.rows().items())]
        leases = tuple(row for row in rows if isinstance(row, Lease))
        malformed = tuple(row for row in rows if isinstance(row, MalformedRow))
        return LeaseScan(leases, malformed, at=self.world.scheduler.now().replace(microsecond=0))

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        self.world.step(self.process)
        return self.world.table.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        world, key = self.world, write.lease_key
        world.step(self.process)
        if write.kind is WriteKind.CREATE and self.is_whole:
            return self._create(write)
        assert write.kind is WriteKind.SEEK, "an operator makes no other write"
        before = world.table.get(key)
        after = apply_to(write, world.table.rows().get(key, {}))
        if not isinstance(before, Lease) or after is None or not self.may_move(before):
            return Refused(before)
        world.put_row(after, f"moves {key[-4:]} from {before.checkpoint}")
        moved = world.table.get(key)
        assert isinstance(moved, Lease)
        self.moved_to[key] = moved.position
        world.moved(key, before.checkpoint, moved.checkpoint)
        return Applied(moved)

    def _create(self, write: LeaseWrite) -> Applied | Refused:
        world, key = self.world, write.lease_key
        before = world.table.get(key)
        after = apply_to(write, world.table.rows().get(key))
        if after is None:
            return Refused(before)
        world.put_row(after, f"creates {key[-4:]}")
        created, truth = world.table.get(key), world.ledger.shards[key]
        assert isinstance(created, Lease)
        world.watch.forget(key)
        world.watch.ever_leased.add(key)
        self.moved_to[key] = created.position
        is_done = truth.is_closed and truth.is_all_done
        world.moved(key, SHARD_END if is_done else TRIM_HORIZON, created.checkpoint)
        return Applied(created)

    def may_move(self, lease: Lease) -> bool:
        if self.is_whole:
            return lease.checkpoint_owner is None
        return may_seek(self.world, lease) and not self._is_about_to_begin(lease)

    def look(self) -> None:
        """Note since when each lease has its owner."""
        for key in self.world.table.rows():
            row = self.world.table.get(key)
            if isinstance(row, Lease):
                self._is_about_to_begin(row)

    def _is_about_to_begin(self, lease: Lease) -> bool:
        """A Java worker that has just acquired it reads a batch from the old position before it hears that it has lost
        it.
        """
        owner, now = lease.actual_owner, self.world.scheduler.now_us
        if self.owners.get(lease.lease_key, (None, 0))[0] != owner:
            self.owners[lease.lease_key] = (owner, now)
        return owner in self.world.java and now - self.owners[lease.lease_key][1] < BEGINS_WITHIN


@dataclass(slots=True)
class OperatorDestination:
    """The FailureDestination port of the operator: what it has is done with. `kept`: shard and index."""

    world: World
    kept: set[tuple[str, int]] = field(default_factory=set)

    def put(self, batch: SetAsideBatch) -> None:
        shard = self.world.ledger.shards[batch.shard_id]
        kept = {(batch.shard_id, shard.index_of(record)) for record in batch.records}
        if odd := [record.checkpoint for record in batch.records if self._is_odd(shard, record)]:
            self.world.fail(f"{batch.shard_id} is skipped past {odd}, which no handler gets so")
        self.kept |= kept

    def _is_odd(self, shard: ShardTruth, record: UserRecord) -> bool:
        index = shard.index_of(record)
        is_whole = self.world.settings.deaggregate or record.data == record.stream_record.data
        return index < 0 or index in shard.unwanted or not is_whole


@dataclass(slots=True)
class OperatorAtWork:
    """Beside the world's own operator. `java`: a Java fleet too."""

    java: JavaNeighbours | None
    is_whole: bool = False
    """Whether it moves whole lineages: without Java's workers, which do not wait for parents without rows."""
    snapshots: dict[str, Snapshot] = field(default_factory=dict, init=False)
    destination: OperatorDestination = field(init=False)
    table: OperatorTable = field(init=False)
    ports: Ports = field(init=False)
    world: World = field(init=False)

    @property
    def version(self) -> int:
        return 0 if self.java is None else self.java.version

    def start(self, world: World) -> None:
        self.world, world.control = world, ControlOfWorld(world.scheduler.now)
        set_clocks_wrong(world)
        if self.is_whole:
            world.may_lose_parents = world.older == 0
        self.destination = OperatorDestination(world)
        world.at(0, "operator at work", self._work)
        if self.java is not None:
            self.java.start(world)

    # The SnapshotStore port

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots[snapshot.name] = snapshot

    def snapshots_kept(self) -> tuple[Snapshot, ...]:
        return tuple(sorted(self.snapshots.values(), key=lambda each: each.taken_at))

    def _work(self) -> None:
        world = self.world
        assert world.control is not None
        process = world.scheduler.current.process
        process.skew = world.minutes_off()
        self.table = OperatorTable(world, process, is_whole=self.is_whole)
        self.ports = Ports(
            self.table,
            SimStream(world, process),
            SimSightingStore(world, process),
            SkewedClock(world.scheduler, process),
            SimTasks(world.scheduler, process),
            world.chance,
            SimMetrics(),
            MemoryLog(),
            self.destination,
            control=world.control.store,
        )
        actions = [
            self._seek,
            self._undo,
            self._skip,
            self._restore,
            self._pause,
            self._pause,
            self._resume,
            self._release,
            self._drain,
        ]
        if self.is_whole:
            actions = [
                self._pause,
                self._resume,
                self._release,
                self._seek_all,
                self._seek_all,
                self._undo_all,
                self._restore_all,
            ]
        while world.has_faults:
            world.scheduler.sleep(int(world.chance.uniform(1, 20) * SECOND))
            self.table.look()
            action = world.chance.choice(actions)
            try:
                action()
            except (SubletError, OddError) as refused:
                world.note("operator at work", f"{action.__name__}: {refused}")
        self._until_it_succeeds(self._resume)

    def _until_it_succeeds(self, action: object) -> None:
        while True:
            try:
                action()  # type: ignore[operator]
            except (SubletError, OddError):
                self.world.scheduler.sleep(SECOND)
            else:
                return

    # Positions

    def _seek(self) -> None:
        if movable := self._movable():
            lease = self.world.chance.choice(movable)
            shard = self.world.ledger.shards[lease.shard_id]
            places = [TRIM_HORIZON, *(Checkpoint(str(number), sub) for number, sub in shard.places)]
            self._move({lease: Position(self.world.chance.choice(places))}, "somewhere")

    def _restore(self) -> None:
        world = self.world
        if self.snapshots and world.chance.random() < 0.7:
            self._move(self._positions_of(world.chance.choice(self.snapshots_kept())), "to a snapshot")
            return
        held = {lease.lease_key: lease.position for lease in self.table.scan().leases}
        self.keep_snapshot(Snapshot(f"mine-{world.scheduler.now_us}", world.scheduler.now(), "by hand", held))

    def _undo(self) -> None:
        """Exactly to where the last seek had found what it moved."""
        seeks = [each for each in self.snapshots_kept() if each.moved]
        if not seeks:
            return
        last = self._positions_of(seeks[-1])
        wanted = {lease: to for lease, to in last.items() if lease.lease_key in seeks[-1].moved}
        seek = self._move(wanted, "undo")
        for lease, position in wanted.items():
            key = lease.lease_key
            is_moved = seek is not None and seek.before.get(key, position) != position
            if is_moved and self.table.moved_to[key] != position:
                self.world.fail(f"undo of {key} goes to {self.table.moved_to[key]}, not to {position}")

    def _positions_of(self, snapshot: Snapshot) -> Mapping[Lease, Position]:
        """Of the leases that may be moved, and only places in the shard: LATEST is another one with each opening."""
        known = {lease: to for lease in self._movable() if (to := snapshot.positions.get(lease.lease_key)) is not None}
        return {
            lease: to
            for lease, to in known.items()
            if to.checkpoint == TRIM_HORIZON or to.checkpoint.is_sequence_number
        }

    def _move(self, wanted: Mapping[Lease, Position], what: str) -> SeekRun | None:
        moves = [
            LeaseMove(self._shard(lease), lease, lease.position, to, MoveEffect.REPEATS)
            for lease, to in sorted(wanted.items(), key=lambda item: item[0].lease_key)
            if to != lease.position
        ]
        if not moves:
            return None
        plan = SeekPlan(tuple(moves))
        seek = SeekRun(plan, self.ports, what)
        stream, seeks = self.ports.stream.describe().identity, seeks_made(self._store)
        found = PlannedSeek("orders", plan, what, self.table.scan(), {}, stream, seeks=seeks)
        if self.world.chance.random() < PLANS_THAT_WAIT:
            self._refused_behind_another(found, seek)
            return None
        carry_out(found, seek, self._store)
        return seek

    def _refused_behind_another(self, found: PlannedSeek, seek: SeekRun) -> None:
        """A colleague moves a lease of the plan back while it waits; carried out, the plan would skip what they wanted
        again.
        """
        mine = found.plan.moves[0]
        assert mine.lease is not None
        if BEGINNING in (mine.then, mine.before):
            return
        theirs = SeekPlan((replace(mine, then=BEGINNING),))
        theirs_found = replace(found, plan=theirs, what="a colleague's")
        carry_out(theirs_found, SeekRun(theirs, self.ports, theirs_found.what), self._store)
        try:
            carry_out(found, seek, self._store)
        except SeekRefused:
            return
        self.world.fail(f"a plan of {mine.lease_key} was carried out after a colleague's seek to its beginning")

    # Whole lineages

    def _seek_all(self) -> None:
        """To the earliest, or to some time ago."""
        is_earliest = self.world.chance.random() < 0.4
        to = place("earliest" if is_earliest else f"{self.world.chance.randint(5, 120)}s")
        self._carry_out_all(lambda shards: at_place(to, shards, (), self.ports))

    def _undo_all(self) -> None:
        if any(each.moved for each in self.snapshots_kept()):
            self._carry_out_all(lambda shards: before_the_last("orders", self._store, shards, self.ports))

    def _restore_all(self) -> None:
        world, mine = self.world, [each for each in self.snapshots_kept() if each.why == BY_HAND]
        if mine and world.chance.random() < 0.6:
            kept = world.chance.choice(mine)
            self._carry_out_all(lambda shards: at_positions(kept, "to a snapshot", shards, (), self.ports))
            return
        self.keep_snapshot(
            snapshot_by_hand(f"mine-{world.scheduler.now_us}", self.table.scan(), world.scheduler.now(), "", None)
        )

    def _carry_out_all(self, target: Callable[[Sequence[Shard]], SeekTarget]) -> None:
        """Waits with the plan, at times, while others move. What was cut short is planned again and carried on with:
        until then some shards are behind their children.
        """
        world, waits = self.world, self.world.chance.random() < 0.3
        try:
            while True:
                try:
                    scan = self.table.scan()
                    if not scan.leases or any(map(is_unopened, scan.leases)):
                        return  # to look for a time would count as the first reading
                    shards = self.ports.stream.list_shards()
                    found = planned("orders", None, scan, shards, target(shards), self.ports)
                    if waits:
                        world.scheduler.sleep(int(world.chance.uniform(1, 15) * SECOND))
                    seek, world.ledger.is_seeking = seek_of(found, self.ports), True
                    carry_out(found, seek, self._store)
                except (SubletError, OddError) as refused:
                    world.note("operator at work", f"{refused}")
                    if not world.ledger.is_seeking or not world.has_faults:
                        return
                    waits = False
                    world.scheduler.sleep(SECOND)
                else:
                    world.note("operator at work", f"{found.what}: {len(seek.before)} moved")
                    return
        finally:
            world.ledger.is_seeking = False

    def _skip(self) -> None:
        world = self.world
        movable = [lease for lease in self._movable() if lease.checkpoint != LATEST]
        if not movable:  # an unpinned lease has nothing to skip, and to look would count as its first reading
            return
        shard_id, count = world.chance.choice(movable).shard_id, world.chance.randint(1, 5)
        found = planned_skip(
            shard_id,
            count,
            None,
            self.table.scan(),
            self.ports.stream.list_shards(),
            self.ports,
            world.settings,
        )
        skip(found, self.destination, self._store, "operator", self.ports, world.settings)
        self._check_skipped(shard_id, found.plan.lease.checkpoint, found.plan.records[-1].checkpoint)

    def _check_skipped(self, shard_id: str, before: Checkpoint, now: Checkpoint) -> None:
        """Every record between the two positions is with the destination."""
        shard = self.world.ledger.shards[shard_id]
        for index in range(max(shard.covered_by(before), shard.trimmed), shard.covered_by(now)):
            if shard.is_required(index) and (shard_id, index) not in self.destination.kept:
                self.world.fail(f"record {index} of {shard_id} is skipped, and no destination has it")

    def _movable(self) -> list[Lease]:
        return [lease for lease in self.table.scan().leases if self.table.may_move(lease)]

    def _shard(self, lease: Lease) -> Shard:
        return next(each for each in self.world.stream.list_shards() if each.shard_id == lease.shard_id)

    @property
    def _store(self) -> _Snapshots:
        return _Snapshots(self)

    # Control

    @property
    def _pausing(self) -> ApplicationControl:
        return ApplicationControl("orders", self.ports, self.world.settings)

    def _pause(self) -> None:
        """Of all, or some shards; until it is resumed, or for a while."""
        chance, pausing = self.world.chance, self._pausing
        lasts = timedelta(seconds=chance.uniform(5, 90)) if chance.random() < 0.3 else None
        shards = self._some_shards() if chance.random() < 0.6 else ()
        ends = None if lasts is None else lambda now: now + lasts
        pausing.order(pausing.pause(Order.PAUSE, "operator", ends), shards)
        self.world.note("operator at work", f"pauses {[shard[-4:] for shard in shards] or 'all'} for {lasts}")

    def _resume(self) -> None:
        ended = self._pausing.resume()
        self.world.note("operator at work", f"resumes {sorted(ended)}")

    def _release(self) -> None:
        shards = self._some_shards()[:1]
        if not shards:
            return
        left = self._pausing.release("operator", shards[0], timedelta(minutes=1), lambda _: None).held
        self.world.note("operator at work", f"{shards[0][-4:]} is {'still held' if left else 'released'}")

    def _drain(self) -> None:
        """When it says so, no call of a healthy process is under way."""
        self.world.note("operator at work", "drains")
        drained = self._pausing.drain("operator", DRAIN_TIMEOUT, lambda _: None)
        self.world.note("operator at work", f"drained, but for {[lease.lease_key[-4:] for lease in drained.held]}")
        if not drained.held:
            self._check_drained(drained.pause.since)
        self.world.scheduler.sleep(int(self.world.chance.uniform(0, 20) * SECOND))
        self._until_it_succeeds(self._resume)

    def _check_drained(self, since: datetime) -> None:
        began = self.world.scheduler.now_us - (self.world.scheduler.now() - since) // MICROSECOND
        for shard_id, processes in self.world.under_way.items():
            for process in processes:
                if self._is_healthy(process, shard_id, began):
                    self.world.fail(f"drained, while {process.name} is in a handler call of {shard_id}")

    def _is_healthy(self, process: Process, shard_id: str, since: int) -> bool:
        """One that stood still, died or could not read the control may be in a call without its lease; so may one whose
        call hangs, or whose lease was moved, or taken by another.
        """
        audited = self.world.write_audit.of.get((process, shard_id))
        has_lost_it = audited is not None and (audited.is_hung or audited.is_moved or audited.over is not None)
        control = self.world.control
        is_reading = control is not None and process not in control.refused
        return not (process.is_java or process.is_dead or has_lost_it or process.frozen_until >= since) and is_reading

    def _some_shards(self) -> Sequence[str]:
        leases = [lease.shard_id for lease in self.table.scan().leases if not lease.is_ended]
        return self.world.chance.sample(leases, self.world.chance.randint(1, len(leases))) if leases else ()


@dataclass(slots=True)
class _Snapshots:
    """The SnapshotStore port."""

    operator: OperatorAtWork

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        self.operator.keep_snapshot(snapshot)

    def snapshots(self) -> tuple[Snapshot, ...]:
        return self.operator.snapshots_kept()

    def delete_snapshot(self, name: str) -> None:
        self.operator.snapshots.pop(name, None)


def draw_operator(chance: Random, settings: Settings) -> OperatorAtWork:
    return OperatorAtWork(draw_java(chance, settings))


def draw_operator_of_lineages(chance: Random, settings: Settings) -> OperatorAtWork:
    return OperatorAtWork(None, is_whole=True)


def operate_on_lineages_in(seed: int, *, is_recorded: bool = False, mutation: Mutation = UNCHANGED) -> Result:
    """Run this seed's world, in which an operator seeks, undoes and restores across reshards, to its end."""
    return play(seed, is_recorded=is_recorded, wiring=mutation, neighbours=draw_operator_of_lineages)


def operate_in(seed: int, *, is_recorded: bool = False, mutation: Mutation = UNCHANGED) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    return play(seed, is_recorded=is_recorded, wiring=mutation, neighbours=draw_operator)


def some_wanted(put: int, sub: int) -> bytes:
    return b'{"kind": "%s", "put": %d}' % (b"other" if (put + sub) % 3 == 0 else b"wanted", put)


def is_wanted(data: bytes) -> bool:
    """A filter of JSON fields drops an aggregate that comes whole: it is no JSON."""
    return data.startswith(b'{"kind": "wanted"')


def operate_on_forms_in(seed: int, *, is_recorded: bool = False, mutation: Mutation = UNCHANGED) -> Result:
    """Run this seed's world, whose handlers get only some records, or aggregates whole, and a skip passes what they
    would get.
    """
    criteria, deaggregate = FORMS[seed % len(FORMS)]
    return play(
        seed,
        is_recorded=is_recorded,
        wiring=mutation,
        neighbours=lambda *_: OperatorAtWork(None),
        data=some_wanted,
        wanted=all_wanted if criteria is None else is_wanted,
        filter_criteria=criteria,
        deaggregate=deaggregate,
    )
