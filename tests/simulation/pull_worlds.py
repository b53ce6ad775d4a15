"""Worlds of the pull API: programs that pull from one stream in simulated time, ack out of order, nak, drain, die.

In all of them only acknowledged records are checkpointed, so every record is acknowledged or delivered again. First
deliveries are in order within a key, and within a shard where nothing was nak'd. No buffer exceeds its limit, and no
callback outlasts its consumer's block.

Ctrl-C strikes some programs at any line of the pull API or at any wait in it. A program that goes on with the same
consumer gets the rest; the rest of another one is delivered again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from random import Random
from typing import Any

from sublet import Consumer, Record
from sublet.decisions.pull.pull_events import EventKind
from sublet.errors import LeaseTableUnavailable
from sublet.ports import Ports
from sublet.protocol.checkpoint import Checkpoint

from tests.doubles.interrupting import interrupted
from tests.doubles.pulled import PulledWorld
from tests.doubles.refusing_table import OutOfReach, RefusingTable

RECORDS = 120
MAX_ACK_PENDING = 12
FETCHES_MAX = 1_000
"""Many times what the records need."""
QUICK: dict[str, Any] = {
    "failover_time": timedelta(seconds=6),
    "heartbeat_interval": timedelta(seconds=1),
    "checkpoint_interval": timedelta(seconds=2),
    "ack_wait": timedelta(seconds=40),
    "max_ack_pending": MAX_ACK_PENDING,
}


class Programs:
    """What all of them have received and answered."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.world = PulledWorld(shards=self.chance.choice((1, 2, 3)))
        self.acknowledged: set[Checkpoint] = set()
        self.in_doubt: set[Checkpoint] = set()
        """Records whose `ack` was interrupted: it counts, or they are delivered again."""
        self.interrupts = 0
        self.started = 0
        self.has_put_back = False
        self.out_of_order: str | None = None
        for number in range(RECORDS):
            self.world.put([f"{self.chance.choice('abcdefgh')}{number}"])
        self.order = {
            record.sequence_number: (log.shard_id, place)
            for log in self.world.stream.logs
            for place, record in enumerate(log.read(0, 10_000)[0])
        }

    def run(self) -> None:
        """Several programs, some of them in parallel; then a last one that handles the rest."""
        running = [self.world.tasks.spawn(self._lives) for _ in range(self.chance.choice((1, 1, 2)))]
        for lives in running:
            lives.result()
        self._acknowledge_the_rest()

    def _lives(self) -> None:
        for _ in range(self.chance.choice((2, 3, 4))):
            self.chance.choice((self._fetches, self._consumes, self._iterates))()
            self.world.sleep(self.chance.choice((0, 1, 30)))
            self.check()

    @contextmanager
    def _member(self) -> Iterator[Consumer]:
        self.started += 1
        table = RefusingTable(self.world.table, LeaseTableUnavailable("killed"))
        ports = self._out_of_reach_at_first(self.world.ports(table=table))
        with self.world.consumer(ports, worker_id=f"program-{self.started}", **QUICK) as consumer:
            yield consumer
            table.refuses = self.chance.random() < 0.3

    def _out_of_reach_at_first(self, ports: Ports) -> Ports:
        """During some programs: they have to wait for DynamoDB, and must not raise."""
        out_for = self.chance.choice((0, 0, 0, 2, 15))
        if not out_for:
            return ports
        sightings: Any = OutOfReach(ports.sightings, LeaseTableUnavailable("an outage"))

        def end() -> None:
            self.world.sleep(out_for)
            sightings.refuses = False

        self.world.tasks.spawn(end)
        return replace(ports, sightings=sightings)

    def _fetches(self) -> None:
        """Ctrl-C ends some of them in the middle."""
        with suppress(KeyboardInterrupt), self._member() as consumer, self._interrupted(0.2):
            kept: list[Record] = []
            for _ in range(self.chance.choice((1, 3, 6))):
                tenures = self._tenures()
                came = list(consumer.fetch(self.chance.choice((1, 5, 30)), expires=self.chance.choice((1, 5))))
                self._check_order(came, tenures)
                kept += came
                self.chance.shuffle(kept)
                while kept and self.chance.random() < 0.9:
                    self._say(kept.pop())

    @contextmanager
    def _interrupted(self, likely: float, *, ends: bool = True) -> Iterator[None]:
        """`ends`: the program does not go on."""
        if self.chance.random() >= likely:
            yield
            return
        waits = self.chance.random() < 0.3
        at = self.chance.randrange(1, 20 if waits else 1500)
        with interrupted(at, waits=waits) as interrupting:
            yield
        if interrupting.ran == at:
            self.interrupts += 1
            self.has_put_back = True
            if ends:
                raise KeyboardInterrupt

    def _iterates(self) -> None:
        with self._member() as consumer:
            limit, auto_ack = self.chance.choice((1, 4, 50)), self.chance.random() < 0.5
            messages = consumer.messages(max_records=limit, auto_ack=auto_ack)
            lasting = consumer._group.entered
            assert lasting is not None
            for record in islice(messages, self.chance.choice((1, 7, 25))):
                assert lasting.buffer.buffered.records <= limit
                self.world.sleep(self.chance.choice((0, 0, 0, 0.01)))
                if not auto_ack:
                    self._say(record)
                elif self.chance.random() < 0.1:
                    self.has_put_back = True
                    record.nak()
                else:  # done when the next one is requested; otherwise it is delivered again
                    self.acknowledged.add(record.user_record.checkpoint)

    def _consumes(self) -> None:
        """In parallel: no later record of a key is called before a nak'd one is called again."""
        calls_under_way: list[Record] = []
        put_back: dict[tuple[int, str, str], int] = {}

        def callback(record: Record) -> None:
            calls_under_way.append(record)
            shard_id, place = self.order[record.sequence_number]
            of_key = (self._tenures(), shard_id, record.user_record.order_key)
            if place > put_back.get(of_key, place):
                self.out_of_order = f"{record!r} is called though one before it was put back"
            if place == put_back.get(of_key):
                del put_back[of_key]
            self.world.sleep(self.chance.choice((0, 0, 0, 0.3, 5)))
            if self.chance.random() < 0.1 and record.nak(self.chance.choice((0, 1))):
                self.has_put_back = True
                put_back[of_key] = place
            else:
                self._say(record)
            calls_under_way.remove(record)

        with self._member() as consumer:
            consuming = consumer.consume(callback, max_records=self.chance.choice((1, 10)), partition_by_key=3)
            self.world.sleep(self.chance.choice((0, 2, 10)))
            end = self.chance.choice((consuming.stop, consuming.drain, consumer.stop, None))
            if end is not None:
                end()
                if self.chance.random() < 0.5:
                    consuming.wait()
        assert not calls_under_way

    def _say(self, record: Record) -> None:
        what = self.chance.random()
        if what < 0.75:
            self._ack(record)
        elif what < 0.9:
            self.has_put_back = True
            record.nak(self.chance.choice((0, 1, 10)))
        elif what < 0.95:
            record.in_progress()

    def _ack(self, record: Record) -> None:
        checkpoint = record.user_record.checkpoint
        is_new = checkpoint not in self.acknowledged
        self.acknowledged.add(checkpoint)  # before another thread can checkpoint it
        self.in_doubt.add(checkpoint)
        try:
            counts = record.ack()
        except KeyboardInterrupt:
            if is_new:
                self.acknowledged.discard(checkpoint)
            raise
        self.in_doubt.discard(checkpoint)
        if not counts and is_new:
            self.acknowledged.discard(checkpoint)

    def _acknowledge_the_rest(self) -> None:
        """Until nothing is delivered for longer than a dead owner's lease and an unacknowledged record take. Whichever
        line is interrupted, the same consumer goes on.
        """
        with self.world.consumer(worker_id="last", **QUICK) as consumer:
            for _ in range(self.chance.choice((0, 1, 4))):
                with self._interrupted(1, ends=False):
                    self._takes_all(consumer)
            self._takes_all(consumer)
            self._check_none_stalls()
        self.check()

    def _takes_all(self, consumer: Consumer) -> None:
        if self.unacknowledged and self.chance.random() < 0.5:
            messages = consumer.messages(max_records=MAX_ACK_PENDING)
            for record in islice(messages, self.chance.choice((3, 30))):
                self._ack(record)
                if not self.unacknowledged:
                    break
            messages.close()
        for _ in range(FETCHES_MAX):
            if not (records := list(consumer.fetch(MAX_ACK_PENDING, expires=60))):
                return
            for record in records:
                self._ack(record)
        raise AssertionError("records that are acknowledged come again and again")

    def _check_none_stalls(self) -> None:
        """Nothing was delivered for longer than a record may be out: all is done, and the checkpoint follows."""
        self.world.sleep(5)
        ends = {log.shard_id: log.newest for log in self.world.stream.logs}
        stalled = {
            shard_id: str(self.world.checkpoints[shard_id])
            for shard_id, newest in ends.items()
            if newest is not None and self.world.checkpoints[shard_id] < Checkpoint(newest.sequence_number)
        }
        assert not stalled, f"all that came is acknowledged, and checkpoints stand still: {stalled}"

    def _check_order(self, came: list[Record], tenures: int) -> None:
        """The order within one fetch. A lease that was acquired again meanwhile began again at its checkpoint."""
        if self._tenures() != tenures:
            return
        places: dict[tuple[str, str], list[int]] = {}
        for record in came:
            shard_id, place = self.order[record.sequence_number]
            if record.attempt == 1:
                places.setdefault((shard_id, record.user_record.order_key), []).append(place)
            if all(one.attempt == 1 for one in came) and not self.has_put_back:
                places.setdefault((shard_id, ""), []).append(place)
        assert all(of_key == sorted(of_key) for of_key in places.values())

    def _tenures(self) -> int:
        return self.world.told(EventKind.LEASE_ACQUIRED)

    def check(self) -> None:
        """No checkpoint is beyond an unacknowledged record."""
        for log in self.world.stream.logs:
            checkpoint = self.world.checkpoints.get(log.shard_id)
            for record in log.read(0, 10_000)[0]:
                at = Checkpoint(record.sequence_number)
                if checkpoint is not None and checkpoint.is_sequence_number and at <= checkpoint:
                    assert at in self.acknowledged | self.in_doubt, f"{at} was never acknowledged"

    @property
    def unacknowledged(self) -> set[str]:
        """After an interrupted `ack` the checkpoint decides: see `_check_none_stalls`."""
        said = self.acknowledged | self.in_doubt
        return self.order.keys() - {checkpoint.sequence_number for checkpoint in said}


def broken_promise(seed: int) -> str | None:
    """The broken promise of one world, or None; runs in a process of its own."""
    programs = Programs(seed)
    try:
        programs.run()
    except Exception as broken:  # noqa: BLE001 - whatever it is: report the seed, and run the others
        return f"{type(broken).__name__}: {broken}"
    if programs.out_of_order is not None:
        return programs.out_of_order
    left = programs.unacknowledged
    return f"never acknowledged, and did not come again: {sorted(left)}" if left else None
