"""The world around the fleet: a producer that reshards at will, and a careless operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sublet.decisions.manager.joins_and_drains import Announcement, AnnouncementKind
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import STARTING_SENTINELS, TRIM_HORIZON, Checkpoint
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.lease import AttributeValue, Lease, MalformedRow
from sublet.protocol.lease_attributes import number, text
from sublet.protocol.lease_row import decode_row
from sublet.protocol.stream_info import PutRecord, RecordDistribution
from sublet.settings import StartKind
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import Reshard, World

OPEN_SHARDS_MAX = 6

Data = Callable[[int, int], bytes]
"""A user record's data, by the number of its put and its index in the aggregate."""


Wanted = Callable[[bytes], bool]
"""Whether `filter_criteria` lets the handler have a record with this data."""


def all_wanted(_: bytes) -> bool:
    return True


def put_number(put: int, _: int) -> bytes:
    return f"{put}".encode()


@dataclass(slots=True)
class Producer:
    """Puts plain records and KPL aggregates, splits and merges, until it stops."""

    world: World
    until: int
    pause: int
    """The average time between two puts, in microseconds."""
    reshards: int
    """How many more times it splits or merges."""
    data: Data
    wanted: Wanted = all_wanted
    switches: int = 0
    """How often the stream places records itself for a while."""
    put: int = 0

    def prepare(self, records: int, reshards: int) -> None:
        """Fills the stream before it is read."""
        self.world.know_shards()
        for record in range(records):
            self._put()
            if record < reshards:
                self._reshard()

    def start(self) -> None:
        self.world.at(0, "producer", self._produce)
        self.world.at(0, "resharder", self._reshard_at_times)
        if self.switches:
            self.world.at(0, "switcher", self._switch_at_times)

    def _produce(self) -> None:
        world = self.world
        while world.scheduler.now_us < self.until:
            for _ in range(world.chance.choice((1, 1, 2, 7))):
                self._put()
            pause = int(world.chance.expovariate(1 / self.pause)) + world.shard_time.lull()
            world.scheduler.sleep(world.day_off.pause(world.scheduler.now_us, pause))

    def _reshard_at_times(self) -> None:
        """Reshards now and then, often twice in a row, before the parents can have been read."""
        world = self.world
        every = self.until // (self.reshards + 1)
        while self.reshards > 0:
            soon = world.chance.random() < 0.3
            world.scheduler.sleep(int(world.chance.uniform(0, 6 * SECOND if soon else 2 * every)))
            if world.scheduler.now_us >= self.until:
                return
            self._reshard()
            self.reshards -= 1

    def _put(self) -> None:
        world, chance = self.world, self.world.chance
        self.put += 1
        keys = [f"key-{chance.randrange(40)}" for _ in range(chance.choice((1, 1, 1, 2, 4)))]
        if world.stream.distribution is RecordDistribution.AUTO:
            self._put_anywhere(keys)
            return
        log = next(log for log in world.stream.logs if log.is_open and hash_key(keys[0], None) in log.hash_key_range)
        keys = [key for key in keys if hash_key(key, None) in log.hash_key_range]
        texts = [self.data(self.put, sub) for sub in range(len(keys))]
        self._note_put(world.stream.put_record(keys[0], _data(keys, texts)), texts)

    def _put_anywhere(self, keys: Sequence[str]) -> None:
        """Puts some records without a partition key, and aggregates of keys that belong elsewhere, so that the stream
        places them.
        """
        texts = [self.data(self.put, sub) for sub in range(len(keys))]
        key = None if self.world.chance.random() < 0.5 else keys[0]
        self._note_put(self.world.stream.put_record(key, _data(keys, texts)), texts)

    def _note_put(self, put: PutRecord, texts: Sequence[bytes]) -> None:
        world = self.world
        truth, now = world.ledger.shards[put.shard_id], world.scheduler.now_us
        newest = next(log for log in world.stream.logs if log.shard_id == put.shard_id).newest
        assert newest is not None, "it has just been put"
        off_by = newest.approximate_arrival_timestamp - world.scheduler.now()
        is_whole = len(texts) > 1 and not world.settings.deaggregate
        for sub, data in enumerate(texts):
            is_wanted = sub == len(texts) - 1 and self.wanted(newest.data) if is_whole else self.wanted(data)
            stamp = now + off_by // MICROSECOND
            truth.put((int(put.sequence_number), sub), now, stamp, is_unwanted=not is_wanted)

    def _switch_at_times(self) -> None:
        """Switches the stream to AUTO and back. It does not switch back before some process has seen it, because
        without a description AUTO cannot be known.
        """
        world = self.world
        for _ in range(self.switches):
            world.scheduler.sleep(int(world.chance.uniform(0, self.until // (self.switches + 1))))
            since = world.scheduler.now()
            world.stream.distribution = RecordDistribution.AUTO
            world.note("producer", "has the stream place records")
            while (world.sightings.load().placement.auto_seen_at or since) <= since:
                world.scheduler.sleep(10 * SECOND)
            world.scheduler.sleep(int(world.chance.uniform(0, 60 * SECOND)))
            world.stream.distribution = RecordDistribution.USER_PARTITION_KEY
            world.note("producer", "places records by their keys again")

    def _reshard(self) -> None:
        world = self.world
        before = world.stream.list_shards()
        open_shards = sorted((s for s in before if s.is_open), key=lambda shard: shard.hash_key_range)
        merge = len(open_shards) > 1 and (len(open_shards) == OPEN_SHARDS_MAX or world.chance.random() < 0.45)
        if merge:
            at = world.chance.randrange(len(open_shards) - 1)
            pair = open_shards[at], open_shards[at + 1]
            child = world.stream.merge(pair[0].shard_id, pair[1].shard_id)
            world.note("producer", f"merges {pair[0].shard_id[-4:]} and {pair[1].shard_id[-4:]} into {child[-4:]}")
        else:
            parent = world.chance.choice(open_shards).shard_id
            children = world.stream.split(parent)
            world.note("producer", f"splits {parent[-4:]} into {children[0][-4:]} and {children[1][-4:]}")
        world.reshards.append(Reshard(world.scheduler.now_us, before))
        world.know_shards()


def _data(keys: Sequence[str], texts: Sequence[bytes]) -> bytes:
    """Makes a plain record, or an aggregate of several."""
    if len(keys) == 1:
        return texts[0]
    return aggregate([(key, None, text) for key, text in zip(keys, texts, strict=True)])


BAD = {
    attributes.LEASE_COUNTER: {"S": "many"},
    attributes.PARENTS: {"N": "7"},
    attributes.STARTING_HASH_KEY: {"S": "somewhere"},
}


@dataclass(slots=True)
class Operator:
    """Deletes a lease row under a running worker, spoils one and repairs it later, moves a checkpoint, adds unknown
    attributes.
    """

    world: World
    until: int

    def start(self) -> None:
        self.world.at(0, "operator", self._work)

    def _work(self) -> None:
        world = self.world
        while world.scheduler.now_us < self.until:
            world.scheduler.sleep(int(world.chance.uniform(5, 60) * SECOND))
            world.scheduler.sleep(world.day_off.left(world.scheduler.now_us))
            rows = world.table.rows()
            if not rows:
                continue
            key = world.chance.choice(sorted(rows))
            lease = decode_row(rows[key])
            if not isinstance(lease, Lease):
                continue
            if world.strikes(Fault.ROW_DELETED) and self._may_delete(lease):
                world.note("operator", f"deletes the row of {key[-4:]}")
                world.watch.previous_rows[key] = (world.scheduler.now_us, world.table.delete_row(key))
                world.watch.forget(key)
                world.untold.pop(key, None)
            elif world.strikes(Fault.ROW_GONE_BAD):
                self._spoil(key, world.chance.choice(sorted(BAD)))
            elif world.strikes(Fault.CHECKPOINT_MOVED) and self._may_move(lease):
                self._move(lease)
            elif world.asks and world.chance.random() < 0.5:
                self._lie()
            elif world.chance.random() < 0.3:
                world.put_row({**rows[key], "team": {"S": "blue"}}, f"adds an attribute to {key[-4:]}")

    def _lie(self) -> None:
        """Stores an announcement of a process that has died, never existed, or has a wrong clock."""
        world = self.world
        at = world.scheduler.now() + timedelta(seconds=world.chance.choice((-600, -25, 0, 2, 600)))
        who = world.chance.choice(("nobody", *world.settings.own_worker_ids, *world.java))
        world.sightings.announce(who, Announcement(world.chance.choice(list(AnnouncementKind)), at))

    def _may_delete(self, lease: Lease) -> bool:
        """Whether the lost state can be recovered.

        An operator must not delete a half-read parent whose children have leases: no implementation survives that. Nor
        may it delete a merge's half-read parent if the other parent's row is gone or near its end. A Java worker at
        that end assumes that the first is long done, or has just seen its row, and creates the child.
        """
        rows, shards = self.world.table.rows(), self.world.ledger.shards
        children = shards[lease.shard_id].children
        partners = {parent for child in children for parent in shards[child].parents} - {lease.shard_id}
        if self.world.may_lose_parents and self._comes_back(lease):
            return True
        return (
            not lease.is_ended
            and not any(child in rows for child in children)
            and all(parent in rows and not shards[parent].is_all_done for parent in partners)
        )

    def _comes_back(self, lease: Lease) -> bool:
        """Whether it is a merge's unfinished parent whose row the next tick makes again: the child waits unowned at its
        beginning, and the other parent, whose row names it, has ended.
        """
        world = self.world
        if lease.is_ended or world.settings.start_position.kind is not StartKind.TRIM_HORIZON:
            return False
        rows = {key: decode_row(row) for key, row in world.table.rows().items()}
        children = world.ledger.shards[lease.shard_id].children
        return len(children) == 1 and self._waits_for_it(rows, children[0], lease.shard_id)

    def _waits_for_it(self, rows: Mapping[str, Lease | MalformedRow | None], child: str, parent: str) -> bool:
        waiting, parents = rows.get(child), set(self.world.ledger.shards[child].parents)
        is_free = isinstance(waiting, Lease) and waiting.actual_owner is None
        others = [rows.get(other) for other in parents - {parent}]
        return (
            is_free
            and isinstance(waiting, Lease)
            and waiting.checkpoint == TRIM_HORIZON
            and waiting.start_at is None
            and any(isinstance(other, Lease) and other.is_ended and child in other.child_shard_ids for other in others)
        )

    def _may_move(self, lease: Lease) -> bool:
        """Leases that an operator must not move:

        - an ended one, whose children have begun
        - one whose parents are still being read, since at a sequence number it counts as begun
        - a Java owner's, which writes the position it remembers
        - one that was moved before its owner has noticed: there and back looks like no move at all
        """
        world, shards = self.world, self.world.ledger.shards
        has_begun = any(
            world.watch.checkpoints.get(child, TRIM_HORIZON).sequence_number not in STARTING_SENTINELS
            for child in shards[lease.shard_id].children
        )
        waits = not all(shards[parent].is_all_done for parent in shards[lease.shard_id].parents)
        is_javas = not world.java.keys().isdisjoint((lease.lease_owner, lease.checkpoint_owner))
        is_known = lease.lease_counter > self.world.moved_by_hand.get(lease.lease_key, -2) + 1
        return is_known and not (lease.is_ended or waits or is_javas or has_begun)

    def _move(self, lease: Lease) -> None:
        """Moves a checkpoint backward, forward, or to the shard's beginning."""
        world, key = self.world, lease.lease_key
        places = [Checkpoint(str(number), sub) for number, sub in world.ledger.shards[lease.shard_id].places]
        to = world.chance.choice([TRIM_HORIZON, *places])
        if to == lease.checkpoint:
            return
        moved = {
            attributes.CHECKPOINT: text(to.sequence_number),
            attributes.SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
        }
        row = {name: value for name, value in world.table.rows()[key].items() if name != attributes.START_AT}
        way = "back" if to < lease.checkpoint else "on"
        world.put_row(row | moved, f"moves the checkpoint of {key[-4:]} {way}, to {to}")
        world.moved_by_hand[key] = lease.lease_counter
        world.moved(key, lease.checkpoint, to)

    def _spoil(self, key: str, name: str) -> None:
        world = self.world
        row = world.table.rows()[key]
        good: AttributeValue | None = row.get(name)
        world.put_row({**row, name: BAD[name]}, f"spoils {name} of {key[-4:]}")
        world.watch.spoilt(key)
        later = world.scheduler.now_us + int(world.chance.uniform(5, 120) * SECOND)
        world.at(min(later, self.until), "operator", lambda: self._mend(key, name, good))

    def _mend(self, key: str, name: str, good: AttributeValue | None) -> None:
        row = self.world.table.row(key)
        if row is None or row.get(name) != BAD[name]:
            return
        mended = {**row, name: good} if good is not None else {n: v for n, v in row.items() if n != name}
        self.world.put_row(mended, f"mends {name} of {key[-4:]}")
