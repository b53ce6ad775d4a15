"""Worlds of rolling deployments: processes join, leave and are killed, and their announcements are lost, late, stale or
lies.

In all of them every record is handled, each shard's first deliveries are in order, records are repeated only after a
crash or a steal, and no pause is longer than without announcements, that is, than it takes to notice an owner's death.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from sublet.decisions.manager.joins_and_drains import Announcement, AnnouncementKind

from tests.doubles.processes import ProcessWorld, Running

WORLDS = 12
FAILOVER = timedelta(seconds=6)
LONGEST = 3 * FAILOVER.total_seconds() + 10
"""A thief dies as it asks (10 s), another as it has acquired, and a tick notices it."""


class Deployment:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.loses = self.chance.choice((0.0, 0.0, 0.3, 1.0))
        self.has_killed = False
        self.world = ProcessWorld(
            self.chance.choice((1, 2, 5)),
            self.chance,
            failover_time=FAILOVER,
            heartbeat_interval=timedelta(seconds=2),
            handover_wait=timedelta(seconds=2),
            checkpoint_interval=timedelta(seconds=self.chance.choice((0, 2))),
        )
        self.world.sightings.disturb = lambda: self.chance.random() >= self.loses
        self.running = [self.world.start() for _ in range(self.chance.choice((1, 2, 3)))]

    def run(self) -> None:
        self.world.produce(timedelta(milliseconds=500))
        self.world.sleep(self.chance.uniform(1, 40))
        for _ in range(6):
            self.chance.choice((self._joins, self._leaves, self._is_killed, self._lies))()
            self.world.sleep(self.chance.choice((0, 1, 5, 25)))
        self._joins()
        self.world.sleep(LONGEST)
        self.world.stop_producing()
        self.world.sleep(LONGEST)
        for one in self.running:
            one.leave()

    def _joins(self) -> None:
        self.running.append(self.world.start())

    def _leaves(self) -> None:
        if len(self.running) > 1:
            self._one().leave()

    def _is_killed(self) -> None:
        if len(self.running) > 1 and self.chance.random() < 0.5:
            self.has_killed = True
            self._one().kill()

    def _one(self) -> Running:
        return self.running.pop(self.chance.randrange(len(self.running)))

    def _lies(self) -> None:
        """Announces a name that does not exist, or is gone, or a leave that does not happen."""
        who = self.chance.choice(["nobody", *(one.name for one in self.running)])
        at = self.world.clock.now() + timedelta(seconds=self.chance.choice((-1_000, -9, 0, 3, 1_000)))
        self.world.sightings.real.announce(who, Announcement(self.chance.choice(list(AnnouncementKind)), at))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_no_announcement_does_harm(seed: int) -> None:
    deployment = Deployment(seed)
    deployment.run()
    world = deployment.world
    assert world.missing == set()
    assert max(world.pauses) < LONGEST
    for seen in world.handled.values():
        first_times = list(dict.fromkeys(data for _, data in seen))
        assert first_times == sorted(first_times, key=world.put.index)
