"""A record that kills every process that handles it: it is tried alone, less and less often, while other shards
continue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.window import CRASHES_MAX, AfterWindow, WindowReport
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.protocol.lease_writes import WriteKind
from sublet.settings import Settings

from tests.doubles.engine_world import MINUTE, NO_WAITING, SECOND, SHARD, EngineWorld

POISON = "shardId-000000000002"


class Killed(BaseException):
    """As os._exit: nothing of the process runs after it."""


class Fleet:
    """The state machine and the schedule, around lease workers that a poison record kills."""

    def __init__(self, shards: int = 4, settings: Settings = NO_WAITING) -> None:
        self.world = EngineWorld(settings, shards=shards, leases=False)
        self.killed_at: list[timedelta] = []
        self.claimed: list[list[str]] = []
        self._put = self.world.destination.put
        self._dead = False
        self._began = self.world.clock.now()
        for shard in range(shards):
            self.world.put(*(f"{shard}.{n}" for n in range(30)), shard=shard, of=shards)
        self.world.handler.script = self._handle
        self.poison: str | None = "2.0"

    def _handle(self, batch: Batch) -> None:
        if self._dead:
            raise Killed
        if self.poison is not None and any(r.data.decode() == self.poison for r in batch.records):
            self.killed_at.append(self.world.clock.now() - self._began)
            self._kill()
            raise Killed

    def _kill(self) -> None:
        """From now on no write of this process reaches the table, and nothing the destination."""
        self._dead = True

        def nothing(*_: object) -> object:
            raise Killed

        self.world.table.disturb = nothing  # type: ignore[assignment]
        self.world.table.disturb_get = nothing  # type: ignore[assignment]
        self.world.destination.put = nothing  # type: ignore[method-assign, assignment]

    def _revive(self) -> None:
        self._dead = False
        self.world.table.disturb = lambda _, apply: apply()
        self.world.table.disturb_get = lambda _: None
        self.world.destination.put = self._put  # type: ignore[method-assign]

    def tick(self) -> None:
        """One tick, and everything that it starts, to the end."""
        prompted = True
        while prompted:
            self.world.manager().tick()
            prompts = [self._execute(item) for item in self.world.dispatcher.take()]
            prompted = any(prompts)

    def _execute(self, item: WorkerItem) -> bool:
        """Whether it ends with a prompt."""
        self.claimed.append([claim.lease_key for claim in item.claims])
        for _ in range(1 + CRASHES_MAX):
            report = self._window(item)
            if report is not None:
                return report.next is AfterWindow.PROMPT
        return False

    def _window(self, item: WorkerItem) -> WindowReport | None:
        """None: it crashed."""
        try:
            report = self.world.window(item)
        except BaseException:
            if not self._dead:
                raise
            report = None
        if self._dead:
            self._revive()
            return None
        return report

    def done(self, shard: int) -> bool:
        finished = {data for _, data in self.world.handler.finished}
        return all(f"{shard}.{n}".encode() in finished for n in range(30))


def test_the_neighbours_of_a_poison_record_are_done_within_one_tick() -> None:
    fleet = Fleet()
    fleet.tick()
    assert [fleet.done(shard) for shard in range(4)] == [True, True, False, True]
    for shard_id in (SHARD, "shardId-000000000001", "shardId-000000000003"):
        assert fleet.world.table.lease(shard_id).checkpoint.is_sequence_number
        assert fleet.world.table.lease(shard_id).crashes == 0, "they got further, which clears them"
    assert fleet.world.table.lease(POISON).crashes >= 3
    assert [POISON] in fleet.claimed, "in an item of its own"


def test_killing_record_is_tried_ever_more_seldom_and_logged() -> None:
    fleet = Fleet()
    for _ in range(90):
        fleet.tick()
        fleet.world.clock.advance(MINUTE)
    late = [at for at in fleet.killed_at if at > timedelta(minutes=45)]
    assert 1 <= len(late) <= 8, fleet.killed_at
    assert fleet.world.metrics.values(Metric.CRASHING_LEASES)[-1] == 1
    named = [line.fields["lease_key"] for line in fleet.world.log.lines if "next records dies" in line.message]
    assert set(named) == {POISON}


def test_mended_handler_goes_on_with_nothing_lost() -> None:
    fleet = Fleet()
    for _ in range(5):
        fleet.tick()
        fleet.world.clock.advance(MINUTE)
    fleet.poison = None
    for _ in range(20):
        fleet.tick()
        fleet.world.clock.advance(MINUTE)
    assert all(fleet.done(shard) for shard in range(4))
    assert fleet.world.table.lease(POISON).crashes == 0
    assert fleet.world.metrics.values(Metric.CRASHING_LEASES)[-1] == 0


@pytest.mark.parametrize("bisects", [True, False])
def test_killing_record_is_set_aside_after_finite_attempts(bisects: bool) -> None:
    settings = replace(
        NO_WAITING,
        batch_size=20,
        maximum_retry_attempts=1,
        bisect_batch_on_function_error=bisects,
        on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up",
    )
    fleet = Fleet(settings=settings)
    fleet.poison = "2.7"
    for _ in range(40):
        fleet.tick()
        fleet.world.clock.advance(MINUTE)
    handled = {data.decode() for _, data in fleet.world.handler.finished}
    aside = {record.data.decode() for batch in fleet.world.destination.taken for record in batch.records}
    everything = {f"{shard}.{n}" for shard in range(4) for n in range(30)}
    assert handled | aside == everything
    assert "2.7" in aside - handled
    assert all(record.startswith("2.") for record in aside), "the neighbours are innocent"
    assert aside == {"2.7"} if bisects else len(aside) == 20, aside
    assert all(batch.attempts == 2 for batch in fleet.world.destination.taken)
    assert fleet.world.table.lease(POISON).crashes == 0


def test_killing_record_in_a_parallel_lane_is_set_aside_too() -> None:
    """It dies in its lane's first call: the others never come to their ends, nor the checkpoint to it."""
    fleet = Fleet(
        settings=replace(
            NO_WAITING,
            batch_size=20,
            parallelization_factor=3,
            maximum_retry_attempts=1,
            bisect_batch_on_function_error=True,
            on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up",
        )
    )
    fleet.poison = "2.17"
    for _ in range(40):
        fleet.tick()
        fleet.world.clock.advance(MINUTE)
    assert [record.data for kept in fleet.world.destination.taken for record in kept.records] == [b"2.17"]
    assert all(fleet.done(shard) for shard in (0, 1, 3))
    assert fleet.world.table.lease(POISON).crashes == 0


def test_records_batched_with_a_killing_record_are_called_twice_before_set_aside() -> None:
    fleet = Fleet(
        settings=replace(NO_WAITING, maximum_retry_attempts=1, on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up")
    )
    for minute in range(40):
        fleet.tick()
        fleet.world.clock.advance(MINUTE)
        fleet.world.put(f"2.{30 + minute}", shard=2, of=4)
    aside = {record.data for batch in fleet.world.destination.taken for record in batch.records}
    calls = Counter(record.data for batch in fleet.world.handler.batches for record in batch.records)
    assert b"2.0" in aside
    assert min(calls[data] for data in aside) >= 2


@pytest.mark.parametrize(("batch_size", "repeated"), [(10_000, 0), (100, 200), (10, 210)])
def test_narrowing_down_repeats_few_records(batch_size: int, repeated: int) -> None:
    """What the first crash finds unwritten comes again once, and nothing a third time, however long the interval
    between checkpoints. Written by that alone it took 121 starts with batches of ten, and 18,000 repeats.
    """
    fleet = Fleet(
        shards=1,
        settings=replace(
            NO_WAITING,
            batch_size=batch_size,
            maximum_retry_attempts=2,
            bisect_batch_on_function_error=True,
            on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up",
        ),
    )
    fleet.world.put(*(f"0.{n}" for n in range(30, 400)))
    fleet.poison = "0.215"
    for _ in range(15):
        fleet.tick()
        fleet.world.clock.advance(MINUTE)
    times = Counter(data for _, data in fleet.world.handler.finished)
    assert [record.data for kept in fleet.world.destination.taken for record in kept.records] == [b"0.215"]
    assert len(times) == 399
    assert (sum(times.values()) - 399, max(times.values()) <= 2) == (repeated, True)
    assert len(fleet.killed_at) <= 12


def test_each_batch_is_checkpointed_for_an_interval_after_a_crash() -> None:
    """The first checkpoint clears the lease, but the owner that died may have been an interval further on."""
    world = EngineWorld(replace(NO_WAITING, batch_size=1, checkpoint_interval=10 * SECOND))
    world.put(*"abcdef")
    world.change_lease(crashes=1)
    seen: list[tuple[int, int]] = []

    def script(_: Batch) -> None:
        seen.append((world.table.lease().crashes, world.table.kinds().count(WriteKind.CHECKPOINT)))
        world.tasks.sleep(3 * SECOND)

    world.handler.script = script
    world.window()
    assert seen == [(1, 0), (0, 1), (0, 2), (0, 3), (0, 3), (0, 3)]
    assert world.table.kinds().count(WriteKind.CHECKPOINT) == 4, "and the last one"


@pytest.mark.parametrize(("why", "crashes"), [(ClaimReason.EXPIRED, 1), (ClaimReason.FREE, 0), (ClaimReason.STEAL, 0)])
def test_an_owner_that_is_gone_without_releasing_counts_as_crashed(why: ClaimReason, crashes: int) -> None:
    world = EngineWorld(NO_WAITING)
    world.handler.on_acquired = lambda *_: seen.append(world.table.lease().crashes)
    seen: list[int] = []
    world.window(world.item(why=why), lasts=10 * SECOND)
    assert seen == [crashes]
