"""Processes replaced one by one while records come: nothing is lost or repeated, and no shard waits for anybody's next
tick.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.decisions.manager.joins_and_drains import Announcement, AnnouncementKind

from tests.doubles.processes import ProcessWorld, Running

MOST_SECONDS = 3.0
EVERY = timedelta(milliseconds=500)
SETTLED = 70
"""Seconds until the announcements of a start have lapsed, at a failover time of 30 s."""


def balanced(world: ProcessWorld, processes: int) -> list[Running]:
    running = [world.start() for _ in range(processes)]
    world.sleep(2 * SETTLED)
    world.produce(EVERY)
    world.sleep(5)
    return running


def end(world: ProcessWorld, running: list[Running]) -> None:
    world.stop_producing()
    world.sleep(5)
    for one in running:
        one.leave()


@pytest.mark.parametrize("starts_first", [True, False])
def test_each_shard_pauses_for_less_than_three_seconds_and_nothing_is_repeated(starts_first: bool) -> None:
    world = ProcessWorld(shards=4)
    running = balanced(world, 2)
    for _ in range(2):
        if starts_first:
            running.append(world.start())
            world.sleep(30)
        running.pop(0).leave()
        if not starts_first:
            running.append(world.start())
        world.sleep(30)
    end(world, running)
    assert world.missing == set()
    assert world.repeated == 0
    assert max(world.pauses) < MOST_SECONDS


def test_solo_process_releases_leases_immediately() -> None:
    world = ProcessWorld(shards=2)
    running = balanced(world, 1)
    before = world.clock.steady()
    running[0].leave()
    assert world.clock.steady() - before < timedelta(seconds=2)
    world.stop_producing()
    assert set(world.owners) == {None}


def test_process_reads_nothing_between_ticks_while_nothing_is_announced() -> None:
    world = ProcessWorld(shards=2)
    running = balanced(world, 2)
    before = world.sightings.loads
    world.sleep(100)
    assert world.sightings.loads - before == 2 * 5, "a look each 20 s"
    end(world, running)


def test_a_process_that_takes_only_free_leases_does_not_announce_itself() -> None:
    """A program that fetches each few seconds would have all others look each second for ever."""
    world = ProcessWorld(shards=2)
    running = [world.start(), world.start(max_leases_to_steal_at_one_time=0)]
    world.sleep(5)
    assert set(world.sightings.load().announced) == {"process-1"}
    end(world, running)


def test_released_lease_waits_for_the_next_tick_when_announcements_are_lost() -> None:
    world = ProcessWorld(shards=2)
    running = balanced(world, 2)
    world.sightings.disturb = lambda: False
    world.sleep(14)  # the other has just looked when the leases are given back
    running.pop().leave()
    world.sleep(30)
    end(world, running)
    assert world.missing == set()
    assert world.repeated == 0
    assert MOST_SECONDS < max(world.pauses) < 25


def test_stale_announcement_costs_scans_and_lapses() -> None:
    world = ProcessWorld(shards=2)
    running = balanced(world, 2)
    world.sightings.announce("died at once", Announcement(AnnouncementKind.JOINS, world.clock.now()))
    before = world.sightings.loads
    world.sleep(3 * SETTLED)
    assert world.sightings.loads - before < 2 * (SETTLED + 3 * SETTLED / 20)
    end(world, running)
    assert world.missing == set()
    assert max(world.pauses) < MOST_SECONDS


def test_requested_lease_goes_to_others_in_ten_seconds_when_the_thief_dies() -> None:
    world = ProcessWorld(shards=2)
    running = balanced(world, 1)
    thief = world.start()
    world.sleep(21)
    while None not in world.owners:
        world.sleep(0.05)
    thief.kill()
    world.sleep(15)
    end(world, running)
    assert world.missing == set()
    assert max(world.pauses) < 12
