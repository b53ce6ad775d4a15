"""The checks do not hold against a worker what an operator did, and hold against it all the rest."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import heartbeat, late_checkpoint
from sublet.testing.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream
from sublet.testing.simulation.drawn_settings import draw_settings
from sublet.testing.simulation.retention import never_told
from sublet.testing.simulation.scheduler import SECOND, Process, Scheduler
from sublet.testing.simulation.shard_time import draw_shard_time
from sublet.testing.simulation.weather import Weather
from sublet.testing.simulation.world import World

from tests.simulation.kept_aside import Kind
from tests.simulation.no_repeats import NoRepeats
from tests.simulation.set_aside import AsideWorld, draw_deployed

SHARD = "shardId-000000000000"
CRASHED = Lease(SHARD, TRIM_HORIZON, 7, "worker", holder="item/1", holder_counter=7, crashes=2)


def calm_world() -> World:
    chance = Random(1)
    scheduler = Scheduler(chance)
    time = draw_shard_time(chance, is_long=True, is_idle=False, are_stamps_right=True)
    return World(
        1,
        chance,
        scheduler,
        Weather({}, 0, chance),
        draw_settings(chance),
        MemoryLeaseTable(),
        MemoryStream(1, clock=scheduler),
        MemorySightingStore(),
        time,
        timedelta(0),
    )


@pytest.mark.parametrize(("to", "is_owed"), [(TRIM_HORIZON, False), (Checkpoint("5"), True)])
def test_loss_must_be_reported_while_the_row_names_a_record_that_must_exist(to: Checkpoint, is_owed: bool) -> None:
    world = calm_world()
    world.know_shards()
    for number in (10, 20):
        world.ledger.shards[SHARD].put((number, 0), 0)
    world.untold[SHARD] = {1}
    world.moved(SHARD, Checkpoint("5"), to)
    assert bool(never_told(world)) is is_owed


@pytest.mark.parametrize(
    ("row", "is_needless"),
    [(CRASHED, False), (None, False), (replace(CRASHED, crashes=0), True)],
    ids=["crashes to clear", "the row was deleted", "nothing to clear"],
)
def test_a_heartbeat_that_clears_crashes_may_be_early(
    row: Lease | None, is_needless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, worker, said = calm_world(), Process("worker/1"), list[str]()
    monkeypatch.setattr(World, "fail", lambda _, problem: said.append(problem))
    clearing = heartbeat(CRASHED, caught_up_at=world.scheduler.now())
    if row is not None:
        world.table.put_row(encode_row(row))
    world.write_audit.sent(worker, clearing)
    world.write_audit.of[worker, SHARD].is_applied = True
    world.scheduler.now_us += SECOND
    world.write_audit.sent(worker, clearing)
    assert ["is needless" in one for one in said] == [True] * is_needless


def test_a_queue_has_its_dead_letter_queue_once_the_redrives_of_the_faults_have_ended() -> None:
    world, aside = calm_world(), AsideWorld(Kind.QUEUE, Random(1), draw_deployed(Random(1)))
    killed, slow = world.process("redrive-1", chaotic=True), world.process("redrive-2", chaotic=True)
    aside.running |= {killed, slow}
    world.scheduler.kill(killed)

    def call() -> None:
        world.scheduler.sleep(18 * 60 * SECOND)
        aside.running.discard(slow)

    world.scheduler.spawn(slow, call)
    aside._wait_for_all(world)
    assert 18 * 60 * SECOND <= world.scheduler.now_us <= 18 * 60 * SECOND + 10 * SECOND


@pytest.mark.parametrize("restarts", [True, False])
def test_a_session_repeats_what_it_finished_after_a_late_checkpoint_only_if_it_restarts(
    restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, before, owner, said = calm_world(), Process("worker/1"), Process("worker/2"), list[str]()
    monkeypatch.setattr(World, "fail", lambda _, problem: said.append(problem))
    repeats = NoRepeats(world)
    monkeypatch.setattr(NoRepeats, "_owns", lambda _, process, __: process is owner)
    repeats.written(before, late_checkpoint(CRASHED, Checkpoint("5")), None)
    world.scheduler.current = world.scheduler.spawn(owner, lambda: None)
    repeats.done(SHARD, 24)
    if restarts:
        repeats.begins(owner, SHARD)
    repeats.handed_out(owner, SHARD, 24, "handed out")
    assert ["its owner knew" in one for one in said] == [True] * (not restarts)


def test_record_whose_destination_has_not_answered_is_not_known_to_be_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may write to the row meanwhile, and die: the next owner sets the record aside again."""
    world, owner = calm_world(), Process("owner")
    said: list[str] = []
    monkeypatch.setattr(World, "fail", lambda _, what: said.append(what))
    monkeypatch.setattr(NoRepeats, "_owns", lambda _, process, __: process is owner)
    repeats = NoRepeats(world)
    world.scheduler.current = world.scheduler.spawn(owner, lambda: None)
    for is_answered in (False, True):
        if not is_answered:
            repeats.unanswered[SHARD, 24] = owner
        repeats.done(SHARD, 24)
        repeats.handed_out(owner, SHARD, 24, "set aside")
        assert ["its owner knew" in one for one in said] == [True] * is_answered
        repeats.unanswered.clear()
