"""Streams that come, go, are created again, split and fail, under lease managers whose lists differ and change.

Each world is drawn from a seed, in the small world of tests/doubles/several_streams.py: whole ticks and windows, one
after the other, with crashed windows and ticks that end halfway in between. What must hold: every record of a stream
that is still there is handled unless the stream's own filter leaves it out, and then it is not; no lease is deleted but
of a shard that was read to its end, and no row names another stream.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest
from sublet.engine.manager.tick import LeaseManager
from sublet.errors import LeaseTableUnavailable, StreamNotFound, StreamUnavailable
from sublet.protocol.lease import Lease
from sublet.protocol.stream_key import in_stream, stream_key_of
from sublet.testing.memory import MemoryStream

from tests.doubles.several_streams import SeveralWorld
from tests.exploring import first

NAMES = ("orders", "orders-eu", "payments", "bills")
LISTS = ("orders*,payments", "payments,bills", "orders,orders-eu,payments,bills", "*")
STEPS = 60
ENDINGS = {"orders": "1234", "orders-eu": "1234", "payments": "0123456789", "bills": "05"}
"""The last digits of the records that pass each stream's filter."""
CRITERIA = json.dumps(
    {
        "Streams": {
            "orders*": {"Filters": [{"Pattern": {"data": [{"suffix": digit} for digit in "1234"]}}]},
            "payments": None,
        },
        "Filters": [{"Pattern": {"data": [{"suffix": "0"}]}}, {"Pattern": {"data": [{"suffix": "5"}]}}],
    }
)
FAULTS = (StreamUnavailable("not now"), StreamNotFound("no such stream"))


@dataclass
class Drawn:
    """`sent`: the records of each stream that is there, by its key, and so not those of one that was deleted."""

    chance: Random
    world: SeveralWorld = field(default_factory=lambda: SeveralWorld("*", filter_criteria=CRITERIA))
    sent: dict[str, list[bytes]] = field(default_factory=dict)
    managers: dict[str, LeaseManager] = field(default_factory=dict)
    number: int = 0

    def run(self) -> None:
        acts = [
            self.come,
            self.go,
            self.put,
            self.put,
            self.put,
            self.split,
            self.fail,
            self.refuse,
            self.mend,
            self.tick,
            self.tick,
            self.tick,
        ]
        for _ in range(STEPS):
            before = self.world.leases()
            self.chance.choice(acts)()
            self.check(before)
            self.world.clock.advance(timedelta(seconds=self.chance.choice([1, 30, 150, 3700])))
        self.mend()
        for _ in range(25):
            before = self.world.leases()
            self.tick("*")
            self.check(before)
            self.world.clock.advance(timedelta(minutes=3))
        handled = set(self.world.handler.data())
        for stream, sent in self.sent.items():
            wanted = {data for data in sent if is_wanted(data)}
            assert handled >= wanted, f"not all records of {stream}"
        assert all(map(is_wanted, handled)), "a record that its stream's filter leaves out"

    def come(self) -> None:
        gone = [name for name in NAMES if name not in self.world.streams]
        if gone:
            name = self.chance.choice(gone)
            self.world.create(name, self.chance.choice([1, 2]))
            self.sent[str(self.world.key(name))] = []

    def go(self) -> None:
        if self.world.streams and self.chance.random() < 0.3:
            name = self.chance.choice(sorted(self.world.streams))
            del self.sent[str(self.world.key(name))]
            self.world.delete(name)

    def put(self) -> None:
        for name in sorted(self.world.streams):
            for _ in range(self.chance.randrange(4)):
                self.number += 1
                data = f"{name}-{self.number}"
                self.world.put(name, data)
                self.sent[str(self.world.key(name))].append(data.encode())

    def split(self) -> None:
        if self.world.streams:
            real: MemoryStream = self.world.streams[self.chance.choice(sorted(self.world.streams))].real
            shards = [shard.shard_id for shard in real.list_shards() if shard.is_open]
            if len(shards) < 5:
                real.split(self.chance.choice(shards))

    def fail(self) -> None:
        """Kinesis refuses a call about a stream for a while, or says falsely that it is not there."""
        if self.world.streams:
            stream = self.world.streams[self.chance.choice(sorted(self.world.streams))]
            stream.fails[self.chance.choice(["list_shards", "poll"])] = self.chance.choice(FAULTS)
        self.world.find_fails = self.chance.choice([None, None, StreamUnavailable("not now")])

    def refuse(self) -> None:
        """The table refuses writes of some streams' leases for a while, so that ticks end halfway."""
        self.world.refused = frozenset(name for name in NAMES if self.chance.random() < 0.4)

    def mend(self) -> None:
        self.world.find_fails = None
        self.world.refused = frozenset()
        for stream in self.world.streams.values():
            stream.fails.clear()

    def tick(self, choice: str | None = None) -> None:
        """Of a process that has ticked before, or of a new one; a window may be lost, as if its process had died."""
        chosen = choice or self.chance.choice(LISTS)
        if chosen not in self.managers or self.chance.random() < 0.2:
            self.managers[chosen] = self.world.manager(chosen, filter_criteria=None)
        try:
            report = self.managers[chosen].tick()
        except (StreamUnavailable, LeaseTableUnavailable):
            return
        if choice is not None or self.chance.random() < 0.8:
            self.world.read(report)

    def check(self, before: dict[str, Lease]) -> None:
        after = self.world.leases()
        for key in before.keys() - after.keys():
            assert before[key].is_ended, f"{key} was deleted at {before[key].checkpoint}"
        for key, lease in after.items():
            stream = stream_key_of(key)
            assert stream is not None
            row = self.world.table.row(key) or {}
            assert row["streamName"]["S"] == str(stream)
            assert key == in_stream(stream, row["shardId"]["S"])
            assert {stream_key_of(each) for each in lease.parent_shard_ids | lease.child_shard_ids} <= {stream}


def is_wanted(data: bytes) -> bool:
    name, _, number = data.decode().rpartition("-")
    return number[-1] in ENDINGS[name]


@pytest.mark.parametrize("seed", first(12, range(200)))
def test_no_record_and_no_position_is_lost_while_streams_come_and_go(seed: int) -> None:
    Drawn(Random(seed)).run()
