"""A query and a fleet share leases through many worlds: reshards, failures at any step, clean ends and killed
keepers.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from sublet.protocol.aggregation import aggregate
from sublet.testing.memory import MemoryLeaseTable, MemoryStream

from tests.exploring import first
from tests.spark.held_query import HeldQuery
from tests.spark.memory_query import SleepingClock, WatchedStream
from tests.spark.sim_fleet import SimFleet

SECOND = timedelta(seconds=1)


class World:
    """`by_spark`: the rows of each batch's last run, if Spark committed it; an uncommitted one has none."""

    def __init__(self, seed: int) -> None:
        print(f"seed {seed}")
        self.chance = Random(seed)
        self.clock = SleepingClock()
        self.stream = MemoryStream(2, clock=self.clock, name="orders")
        self.table = MemoryLeaseTable()
        self.spark = HeldQuery(
            WatchedStream(self.stream, self.clock), self.clock, self.table, maxRecordsPerTrigger="40"
        )
        self.fleet = SimFleet(self.stream, self.table, self.clock, self.chance)
        self.produced: list[bytes] = []

    def produce(self) -> None:
        for _ in range(self.chance.randrange(30)):
            key = f"key-{self.chance.randrange(1000)}"
            data = [b"%d" % (len(self.produced) + n) for n in range(self.chance.choice((1, 1, 5)))]
            self.stream.put(key, data[0] if len(data) == 1 else aggregate([(key, None, each) for each in data]))
            self.produced += data

    def reshard(self) -> None:
        still_open = sorted((s for s in self.stream.list_shards() if s.is_open), key=lambda s: s.hash_key_range)
        if len(still_open) > 1 and self.chance.random() < 0.5:
            first = self.chance.randrange(len(still_open) - 1)
            self.stream.merge(still_open[first].shard_id, still_open[first + 1].shard_id)
        else:
            self.stream.split(self.chance.choice(still_open).shard_id)

    def change(self) -> None:
        self.produce()
        if self.chance.random() < 0.2:
            self.reshard()
        self.clock.sleep(SECOND * self.chance.uniform(0.1, 2))
        self.spark.keeper.work()

    @property
    def is_uncommitted(self) -> bool:
        log, commits = self.spark.query.log, self.spark.commits.ends
        return len(log) > len(commits)

    def batch(self) -> None:
        """Plan, run, commit; or only the first of these, so that the query fails at this point."""
        if not self.is_uncommitted and not self.spark.query.plan():
            return
        if self.chance.random() < 0.85:
            self.spark.query.run()
            if self.chance.random() < 0.85:
                self.spark.commit()

    def run_spark(self, clean: bool) -> None:
        """A query from start to end. It ends at the latest with a batch that is not committed."""
        self.spark.start()
        for _ in range(self.chance.randrange(1, 6)):
            self.change()
            self.batch()
            if self.is_uncommitted:
                break
        if clean:
            self.spark.end()
        self.produce()

    def by_spark(self) -> list[bytes]:
        committed = self.spark.query.rows[: len(self.spark.commits.ends)]
        return [row.data for rows in committed for row in rows]

    def finish(self) -> Counter[bytes]:
        """The fleet handles the rest, when every lease is free."""
        if self.is_uncommitted and self.chance.random() < 0.5:
            self.spark.start()
            self.spark.run()
            self.spark.end()
        for _ in range(200):
            if not self.fleet.turn() and len(set(self.by_spark() + self.fleet.handled)) == len(self.produced):
                break
        return Counter(self.by_spark() + self.fleet.handled)


@pytest.mark.parametrize("seed", first(5, range(20)))
def test_clean_ends_lose_and_repeat_nothing(seed: int) -> None:
    world = World(seed)
    for _ in range(12):
        world.run_spark(clean=True)
        world.fleet.turn(world.chance.choice((None, 0, 3, 20)))
    times = world.finish()
    assert [data for data in world.produced if data not in times] == [], "missing"
    assert [data for data, count in times.items() if count > 1] == [], "twice"
    assert world.by_spark()
    assert world.fleet.handled


@pytest.mark.parametrize("seed", first(5, range(10)))
def test_killed_keepers_lose_nothing(seed: int) -> None:
    """Their leases expire; what was read since the last committed batch may come again."""
    world = World(seed)
    for _ in range(12):
        world.run_spark(clean=world.chance.random() < 0.5)
        world.fleet.turn(world.chance.choice((None, 0, 3, 20)))
    world.spark.start()
    if world.is_uncommitted:
        world.spark.run()
    world.spark.query.driver.set_targets()
    world.spark.drain()
    world.spark.end()
    times = world.finish()
    assert [data for data in world.produced if data not in times] == [], "missing"
