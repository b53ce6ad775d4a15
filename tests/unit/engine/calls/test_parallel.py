"""Several calls of one shard at once: each partition key is in only one of them, in order, and the checkpoint is before
the first gap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.calls import parallel
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import AttemptedRecords
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import UserRecord
from sublet.settings import Settings

from tests.doubles.engine_world import MINUTE, NO_WAITING, SECOND, EngineWorld, Result, only

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"
MILLISECONDS = timedelta(milliseconds=1)
IN_EACH_LANE = [9, 6, 3, 17]
"""Records, by the lane of their key where there are four."""


class SideBySide:
    """A world whose handler takes its time, and is watched: no key twice at once, nor out of order."""

    def __init__(self, settings: Settings, keys: int = 50, records: int = 400) -> None:
        self.world = EngineWorld(settings)
        self.chance = Random(1)
        self.numbers = [self.world.shards.put(f"key-{n % keys}", f"{n}".encode(), 0) for n in range(records)]
        self.busy: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.poison: set[bytes] = set()
        self.done: list[UserRecord] = []
        self.broken: list[str] = []
        self.last: dict[str, int] = defaultdict(lambda: -1)
        self.world.handler.script = self.handle
        self.world.table.disturb = self.watch

    def handle(self, batch: Batch) -> None:
        keys = {record.order_key for record in batch.records}
        self.broken += [f"{key} is in two calls at once" for key in keys if self.busy[key]]
        self.busy.update(keys)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.world.tasks.signal().wait(10 * MILLISECONDS)
        self.at_once -= 1
        self.busy.subtract(keys)
        if any(record.data in self.poison for record in batch.records):
            raise ValueError("poison")
        for record in batch.records:
            if int(record.data) <= self.last[record.order_key]:
                self.broken.append(f"{record.data!r} comes after {self.last[record.order_key]}")
            self.last[record.order_key] = int(record.data)
        self.done += batch.records

    def watch(self, write: LeaseWrite, apply: Any) -> Result:
        if write.kind is WriteKind.CHECKPOINT:
            to = int(write.sets["checkpoint"]["S"])
            ended = {record.sequence_number for record in self.done} | {
                record.sequence_number for kept in self.world.destination.taken for record in kept.records
            }
            gone_past = {number for number in self.numbers if int(number) <= to} - ended
            self.broken += [f"a checkpoint past {number}" for number in gone_past]
        return apply()  # type: ignore[no-any-return]

    def data(self) -> list[int]:
        return sorted(int(record.data) for record in self.done)


def settings_with(factor: int, **changes: Any) -> Settings:
    return replace(NO_WAITING, parallelization_factor=factor, batch_size=1, **changes)


def test_calls_go_on_side_by_side_and_each_key_keeps_its_order() -> None:
    world = SideBySide(settings_with(10))
    report = only(world.world.window())
    assert (report.outcome, report.user_records, report.handler_failures, report.problem) == (
        SessionOutcome.CAUGHT_UP,
        400,
        0,
        None,
    )
    assert world.broken == []
    assert world.data() == list(range(400))
    assert world.most_at_once == 10
    row = world.world.table.lease()
    assert (row.checkpoint.sequence_number, row.attempts) == (world.numbers[-1], 0)


def test_parallelization_factor_one_makes_one_call_at_a_time() -> None:
    world = SideBySide(settings_with(1))
    world.world.window()
    assert world.most_at_once == 1
    assert world.data() == list(range(400))


@pytest.mark.parametrize(("crashes", "most_at_once"), [(0, 4), (1, 4), (2, 1), (3, 1)])
def test_lease_with_many_crashes_gets_one_call_at_a_time(crashes: int, most_at_once: int) -> None:
    side = SideBySide(replace(NO_WAITING, parallelization_factor=4, batch_size=5), records=100)
    side.world.change_lease(crashes=crashes)
    side.world.window()
    assert side.most_at_once == most_at_once
    assert side.data() == list(range(100))


def test_ten_lanes_are_at_least_eight_times_as_fast() -> None:
    """With a handler that takes 10 ms, by the clock that it takes them from."""
    took = {}
    for factor in (1, 10):
        world = SideBySide(settings_with(factor), keys=3_000, records=3_000)
        began = world.world.seconds()
        world.world.window()
        took[factor] = world.world.seconds() - began
        assert len(world.done) == 3_000
    assert took[1] / took[10] >= 8, took


def test_a_poison_is_set_aside_while_the_others_go_on() -> None:
    world = SideBySide(settings_with(4, maximum_retry_attempts=1, on_failure=QUEUE))
    world.poison = {b"17", b"230"}
    assert only(world.world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.broken == []
    aside = sorted(int(record.data) for kept in world.world.destination.taken for record in kept.records)
    assert aside == [17, 230]
    assert world.data() == [n for n in range(400) if n not in aside]
    assert world.world.table.lease().checkpoint.sequence_number == world.numbers[-1]


@pytest.mark.parametrize("poison", IN_EACH_LANE)
def test_checkpoint_stays_before_a_record_that_keeps_failing_in_its_lane(poison: int) -> None:
    world = SideBySide(settings_with(4, handler_attempts=2))
    world.poison = {b"%d" % poison}
    report = only(world.world.window(lasts=5 * MINUTE))
    assert (report.outcome, report.user_records, report.handler_failures) == (
        SessionOutcome.HANDLER_FAILED,
        len(world.done),
        2,
    )
    assert "ValueError" in (report.problem or "")
    assert world.broken == []
    assert world.world.table.lease().checkpoint.sequence_number == world.numbers[poison - 1]
    assert world.world.table.lease().attempts == 2
    world.poison, world.last = set(), defaultdict(lambda: -1)
    world.world.window()
    assert set(range(400)) <= {int(record.data) for record in world.done}


@pytest.mark.parametrize("bisects", [True, False])
def test_attempts_are_kept_though_the_other_lanes_had_not_come_so_far(bisects: bool) -> None:
    """By a handler that takes no time, the first lane has given up before the second begins."""
    settings = settings_with(
        3,
        handler_attempts=1,
        maximum_retry_attempts=2,
        bisect_batch_on_function_error=bisects,
        on_failure=QUEUE,
    )
    world = EngineWorld(replace(settings, batch_size=10_000))
    for n in range(60):
        world.shards.put(f"key-{n % 6}", f"{n}".encode(), 0)
    calls: list[list[bytes]] = []

    def script(batch: Batch) -> None:
        calls.append([record.data for record in batch.records])
        if b"20" in calls[-1]:
            raise ValueError("poison")

    world.handler.script = script
    windows = 0
    while not world.destination.taken:
        world.window()
        windows += 1
    aside = [record.data for kept in world.destination.taken for record in kept.records]
    assert windows == 3
    assert b"20" in aside
    if bisects:
        assert (aside, calls.count(aside)) == ([b"20"], 3)
    else:
        assert sum(b"20" in call for call in calls) == 3
    assert {record for call in calls if b"20" not in call for record in call} | set(aside) == {
        b"%d" % n for n in range(60)
    }


def test_attempts_of_a_lane_do_not_count_for_other_lanes() -> None:
    """Read with another parallelization_factor, they are known of the first record alone."""
    world = EngineWorld(settings_with(1, maximum_retry_attempts=2, on_failure=QUEUE))
    world.settings = replace(world.settings, batch_size=10)
    numbers = [world.shards.put(f"key-{n}", f"{n}".encode(), 0) for n in range(4)]
    world.change_lease(attempts=3, tried=AttemptedRecords(Checkpoint(numbers[-1]), lanes=3))
    world.window()
    assert [len(kept.records) for kept in world.destination.taken] == [1]
    assert world.handler.data() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("poison", IN_EACH_LANE)
def test_a_call_that_hangs_in_one_lane_gives_the_lease_up(poison: int) -> None:
    world = SideBySide(settings_with(4, handler_timeout=20 * SECOND))

    def script(batch: Batch) -> None:
        if int(batch.records[0].data) == poison:
            world.world.tasks.sleep(60 * MINUTE)

    world.world.handler.script = script
    report = only(world.world.window(lasts=5 * MINUTE))
    assert report.outcome is SessionOutcome.HANDLER_HUNG
    assert (report.problem or "").startswith("hung in handle")
    assert world.world.table.lease().checkpoint.sequence_number == world.numbers[poison - 1]


def test_an_unexpected_fault_ends_the_other_lanes_and_is_raised() -> None:
    world = SideBySide(settings_with(4))
    world.poison = {b"0"}
    put = world.world.metrics.put

    def fail(metric: Metric, *args: Any, **named: Any) -> None:
        put(metric, *args, **named)
        if metric is Metric.HANDLER_FAILURES and len(world.world.metrics.values(metric)) == 1:
            raise ZeroDivisionError

    world.world.metrics.put = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.world.window()
    assert len(world.done) < 20
    assert world.world.table.lease().lease_owner is None


def test_handler_checkpoint_is_written_once_all_earlier_records_are_finished() -> None:
    """Two lanes: 0 and 1 in one, 4 and 5 in the other."""
    world = EngineWorld(settings_with(2, checkpoint_interval=timedelta(0)))
    world.settings = replace(world.settings, batch_size=10)
    numbers = [world.shards.put(f"key-{n}", f"{n}".encode(), 0) for n in (0, 4, 1, 5)]
    pauses = {b"0": 0, b"4": 10, b"5": 10, b"1": 30}
    said: list[tuple[bytes, bool, str]] = []

    def script(batch: Batch) -> None:
        for record in batch.records:
            world.tasks.sleep(pauses[record.data] * MILLISECONDS)
            is_written = batch.checkpoint(record)
            said.append((record.data, is_written, world.table.lease().checkpoint.sequence_number))

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert said == [
        (b"0", True, numbers[0]),
        (b"4", True, numbers[1]),
        (b"5", False, numbers[1]),
        (b"1", True, numbers[3]),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_worlds_with_poison_and_a_destination_that_refuses(seed: int) -> None:
    chance = Random(seed)
    settings = settings_with(
        chance.choice((2, 5, 10)),
        maximum_retry_attempts=chance.choice((0, 2)),
        bisect_batch_on_function_error=chance.random() < 0.5,
        checkpoint_interval=timedelta(milliseconds=chance.choice((0, 50, 10_000))),
        on_failure=QUEUE,
    )
    world = SideBySide(replace(settings, batch_size=chance.choice((1, 3, 20))), keys=chance.choice((3, 40)))
    world.poison = {f"{chance.randrange(400)}".encode() for _ in range(6)}
    world.world.destination.refusals = chance.choice((0, 3))
    for _ in range(8):
        world.last.clear()
        world.world.window(lasts=5 * MINUTE)
    assert world.broken == []
    aside = {int(record.data) for kept in world.world.destination.taken for record in kept.records}
    assert set(world.data()) | aside == set(range(400))
    assert {int(data) for data in world.poison} <= aside


def test_a_lane_that_does_not_go_by_the_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_place(records: Any, count: int) -> list[list[int]]:
        return [list(range(start, len(records), count)) for start in range(count)]

    monkeypatch.setattr(parallel, "lanes_of", by_place)
    world = SideBySide(settings_with(3), keys=2)
    world.world.window()
    assert world.broken
