"""Records that lanes have finished beyond a failing record are not handed out again, as long as the lease's row can say
so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.session.window import SessionOutcome
from sublet.handler import Batch
from sublet.ports import Applied
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.finished_ahead import lane_of
from sublet.protocol.lease_attributes import bytes_of, number, text
from sublet.protocol.lease_writes import (
    LeaseWrite,
    WriteKind,
    acquire,
    heartbeat,
    late_checkpoint,
    release,
)
from sublet.settings import Settings

from tests.doubles.engine_world import MINUTE, NO_WAITING, SECOND, SHARD, EngineWorld, Result, only

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"
SIDE_BY_SIDE = replace(NO_WAITING, parallelization_factor=4, batch_size=5, handler_attempts=1)


class World:
    """200 records of 20 keys; what is in `poison` fails, each time."""

    def __init__(self, settings: Settings = SIDE_BY_SIDE, poison: int = 30) -> None:
        self.world = EngineWorld(settings)
        self.numbers = [self.world.shards.put(f"key-{n % 20}", f"{n}".encode(), 0) for n in range(200)]
        self.poison: set[bytes] = {b"%d" % poison}
        self.world.handler.script = self.handle

    def handle(self, batch: Batch) -> None:
        self.world.tasks.sleep(SECOND)
        if any(record.data in self.poison for record in batch.records):
            raise ValueError("poison")

    def window(self, **options: Any) -> SessionOutcome:
        return only(self.world.window(**options)).outcome

    def done(self) -> Counter[int]:
        return Counter(map(int, self.world.handler.data()))

    @property
    def row(self) -> dict[str, Any]:
        return dict(self.world.table.real.rows()[SHARD])

    def has_noted(self) -> bool:
        return self.world.table.lease().noted_ahead is not None


def test_records_finished_beyond_a_failing_record_are_delivered_once() -> None:
    world = World()
    for _ in range(20):
        assert world.window() is SessionOutcome.HANDLER_FAILED
    done = world.done()
    assert max(done.values()) == 1
    assert len(done) > 100
    assert world.world.table.lease().checkpoint.sequence_number < world.numbers[30]
    world.poison.clear()
    world.window()
    assert world.done() == Counter(range(200))
    assert attributes.AHEAD not in world.row


def test_the_row_says_so_and_stays_below_a_kilobyte() -> None:
    world = World(replace(SIDE_BY_SIDE, parallelization_factor=10, batch_size=1))
    world.window()
    assert world.has_noted()
    assert bytes_of(world.row) <= 1000


def test_twenty_records_of_a_thousand_that_fail_for_good_cost_no_repeats() -> None:
    """They cost 19,460 deliveries of the 980 good ones, and each was set aside time and again."""
    settings = replace(
        NO_WAITING,
        parallelization_factor=10,
        batch_size=100,
        maximum_retry_attempts=10,
        bisect_batch_on_function_error=True,
        on_failure=QUEUE,
    )
    world = EngineWorld(settings)
    for n in range(1000):
        world.shards.put(f"key-{n * 7 % 50}", b"%d" % n, 0)

    def script(batch: Batch) -> None:
        if any(int(record.data) % 50 == 0 for record in batch.records):
            raise ValueError("poison")

    world.handler.script = script
    while only(world.window()).outcome is not SessionOutcome.CAUGHT_UP:
        pass
    assert Counter(map(int, world.handler.data())) == Counter(n for n in range(1000) if n % 50)
    aside = [int(record.data) for kept in world.destination.taken for record in kept.records]
    assert sorted(aside) == list(range(0, 1000, 50))


def test_finished_ahead_survives_a_crash_as_of_the_last_heartbeat() -> None:
    """It dies without a word; what it has finished since its last write comes again."""
    world = World(replace(SIDE_BY_SIDE, handler_attempts=100, heartbeat_interval=10 * SECOND))
    died = False

    def gone(_: LeaseWrite, apply: Callable[[], Result]) -> Result:
        nonlocal died
        died = died or world.world.seconds() > 40
        if died:
            raise SystemExit
        return apply()

    world.world.table.disturb = gone
    with pytest.raises(SystemExit):
        world.window(lasts=2 * MINUTE)
    world.world.table.disturb = lambda _, apply: apply()
    before = world.done()
    world.poison.clear()
    world.window(item=world.world.item(why=ClaimReason.EXPIRED))
    assert set(world.done()) == set(range(200))
    assert sum(world.done().values()) - 200 < sum(before.values()) // 4


@pytest.mark.parametrize("factor", [1, 3, 4])
def test_finished_ahead_holds_under_another_parallelization_factor(factor: int) -> None:
    world = World()
    for _ in range(10):
        world.window()
    before = sum(world.done().values())
    world.world.settings = replace(SIDE_BY_SIDE, parallelization_factor=factor)
    for _ in range(4):
        world.window()
    world.poison.clear()
    world.window()
    assert set(world.done()) == set(range(200))
    assert before > 100
    assert max(world.done().values()) == 1 or factor == 3


def test_aggregates_as_they_were_put_have_lanes_of_their_own() -> None:
    """By their own keys: what is said of them is not believed of their user records."""
    world = World(replace(SIDE_BY_SIDE, deaggregate=False))
    inside = {
        aggregate([(f"key-{n}", None, b"%d" % (1000 + n)), ("x", None, b"%d" % (2000 + n))]): n for n in range(20)
    }
    for data, n in inside.items():
        world.world.shards.put(f"key-{19 - n}", data, 0)
    for _ in range(15):
        world.window()
    whole = {inside[data] for data in world.world.handler.data() if data in inside}
    assert 0 < len(whole) < 20
    assert world.has_noted()
    world.world.handler.finished.clear()
    world.world.settings = SIDE_BY_SIDE
    world.poison.clear()
    world.window()
    left = {first + n for first in (1000, 2000) for n in set(range(20)) - whole}
    assert left <= set(world.done())


# A write by any other worker makes it void


def by_java(world: World) -> None:
    row = world.row
    counter = int(row[attributes.LEASE_COUNTER]["N"])
    world.world.table.real.put_row({**row, attributes.LEASE_COUNTER: number(counter + 1)})


def moved_to(to: Checkpoint) -> Callable[[World], None]:
    def move(world: World) -> None:
        world.world.table.real.put_row(
            {
                **world.row,
                attributes.CHECKPOINT: text(to.sequence_number),
                attributes.SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
            }
        )

    return move


def by_the_version_before(world: World) -> None:
    """It acquires, heartbeats and releases, and leaves what it does not know."""
    apply, lease = world.world.table.real.apply, world.world.table.lease()
    result = apply(acquire(lease.fence, "orders-lambda-1", "item/0.2"))
    assert isinstance(result, Applied)
    result = apply(heartbeat(result.lease))
    assert isinstance(result, Applied)
    assert isinstance(apply(release(result.lease)), Applied)


def late_by_the_version_before(world: World) -> None:
    """It checkpoints late, and an operator puts that back: the counter is what it was, and so is the checkpoint."""
    lease = world.world.table.lease()
    late = late_checkpoint(lease, Checkpoint(world.numbers[150]))
    removes = tuple(name for name in late.removes if name != attributes.AHEAD)
    assert isinstance(world.world.table.real.apply(replace(late, removes=removes)), Applied)
    moved_to(lease.checkpoint)(world)


def late_by_this_one(world: World) -> None:
    lease = world.world.table.lease()
    assert isinstance(world.world.table.real.apply(late_checkpoint(lease, Checkpoint(world.numbers[150]))), Applied)
    moved_to(lease.checkpoint)(world)


@pytest.mark.parametrize(
    "voids",
    [
        by_java,
        moved_to(TRIM_HORIZON),
        by_the_version_before,
        late_by_the_version_before,
        late_by_this_one,
    ],
    ids=["java", "rewound", "the version before", "late before", "late"],
)
def test_finished_ahead_is_void_once_another_has_written(voids: Callable[[World], None]) -> None:
    """They may have meant all of it to be handled again."""
    world = World()
    world.window()
    assert world.has_noted()
    covered = world.numbers.index(world.world.table.lease().checkpoint.sequence_number) + 1
    voids(world)
    since = world.numbers.index(at) + 1 if (at := world.row["checkpoint"]["S"]) in world.numbers else 0
    world.world.handler.finished.clear()
    world.poison.clear()
    world.window()
    assert world.done() == Counter(range(since, 200))
    assert since in (0, covered)


def test_owner_forgets_finished_ahead_when_its_position_is_moved() -> None:
    """It is rewound while calls are under way; the owner dies before it has begun again."""
    world = World(replace(SIDE_BY_SIDE, handler_attempts=100, heartbeat_interval=5 * SECOND))
    world.world.at(31 * SECOND, lambda: moved_to(TRIM_HORIZON)(world))
    seen: list[bool] = []
    for second in range(32, 40):
        world.world.at(second * SECOND, lambda: seen.append(world.has_noted()))
    world.window(lasts=40 * SECOND)
    assert not any(seen)
    world.world.handler.finished.clear()
    world.poison.clear()
    world.world.change_lease(checkpoint=TRIM_HORIZON, noted_ahead=None, lease_owner=None)
    world.window()
    assert world.done() == Counter(range(200))


def test_a_release_meets_a_row_that_was_moved_just_before() -> None:
    """It is refused, and made again without what was meant for where the row stood."""
    world = World()
    moved = False

    def move(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        nonlocal moved
        if write.kind is WriteKind.RELEASE and not moved:
            moved = True
            moved_to(TRIM_HORIZON)(world)
        return apply()

    world.world.table.disturb = move
    world.window()
    assert world.world.table.lease().lease_owner is None
    assert attributes.AHEAD not in world.row
    assert world.row["checkpoint"]["S"] == "TRIM_HORIZON"


# Records that are set aside


def test_setting_aside_beyond_the_checkpoint_is_written_before_a_crash() -> None:
    """The process dies right after it: another would give the same records to the destination again."""
    settings = replace(SIDE_BY_SIDE, batch_size=1, maximum_retry_attempts=0, handler_attempts=50, on_failure=QUEUE)
    world = World(settings, poison=30)
    elsewhere = lane_of("key-10", 4)
    hangs_at = next(b"%d" % n for n in range(20) if lane_of(f"key-{n}", 4) != elsewhere)

    def handle(batch: Batch) -> None:
        if batch.records[0].data == hangs_at:
            world.world.tasks.sleep(MINUTE)
        world.handle(batch)

    put = world.world.destination.put

    def put_and_die(batch: Any) -> None:
        put(batch)
        world.world.at(SECOND / 2, die)

    def die() -> None:
        def gone(*_: object) -> Any:
            raise SystemExit

        world.world.table.disturb = gone

    world.world.destination.put = put_and_die  # type: ignore[method-assign]
    world.world.handler.script = handle
    with pytest.raises(SystemExit):
        world.window(lasts=2 * MINUTE)
    world.world.table.disturb = lambda _, apply: apply()
    world.world.destination.put = put  # type: ignore[method-assign]
    assert world.world.table.lease().checkpoint.sequence_number < world.numbers[int(hangs_at)]
    hangs_at = b""
    world.window(item=world.world.item(why=ClaimReason.EXPIRED))
    assert [record.data for kept in world.world.destination.taken for record in kept.records] == [b"30"]
    assert set(world.done()) == set(range(200)) - {30}


def test_checkpoints_by_the_handler_count_in_their_lane() -> None:
    """A call that fails after `batch.checkpoint` has finished what is before it, in its own lane."""
    world = World(replace(SIDE_BY_SIDE, batch_size=50))
    done: Counter[bytes] = Counter()

    def handle(batch: Batch) -> None:
        for record in batch.records:
            if record.data in world.poison:
                raise ValueError("poison")
            done[record.data] += 1
            batch.checkpoint(record)

    world.world.handler.script = handle
    for _ in range(3):
        world.window()
    assert max(done.values()) == 1
    assert len(done) > 100
    world.poison.clear()
    world.window(lasts=timedelta(minutes=5))
    assert done == Counter(b"%d" % n for n in range(200))


def test_checkpoint_writes_finished_ahead_and_removes_what_it_passes() -> None:
    world = World(replace(SIDE_BY_SIDE, checkpoint_interval=timedelta(0)))
    noted: list[bool] = []

    def watch(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        result = apply()
        if write.kind is WriteKind.CHECKPOINT:
            lease = world.world.table.lease()
            noted.append(lease.noted_ahead is not None)
            assert lease.noted_ahead == (lease.noted_ahead and lease.noted_ahead.beyond(lease.checkpoint))
            assert lease.noted_ahead_counter in (None, lease.lease_counter)
        return result

    world.world.table.disturb = watch
    world.poison.clear()
    world.window()
    assert any(noted)
    assert not noted[-1]
    assert attributes.AHEAD not in world.row
    assert attributes.ATTEMPTS not in world.row


def test_checkpoint_passes_an_aggregate_whose_last_records_were_finished_ahead() -> None:
    world = EngineWorld(SIDE_BY_SIDE)
    keys = [next(f"key-{n}" for n in range(100) if lane_of(f"key-{n}", 4) == lane) for lane in (0, 1, 2)]
    number_put = world.shards.put("key", aggregate([(key, None, key.encode()) for key in keys]), 0)
    fails = {keys[0].encode()}

    def script(batch: Batch) -> None:
        world.tasks.sleep(SECOND)
        if any(record.data in fails for record in batch.records):
            raise ValueError("poison")

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    fails.clear()
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.table.lease().checkpoint == Checkpoint(number_put, 2)
    assert world.handler.data()[-1] == keys[0].encode()
    assert len(world.handler.data()) == 3
