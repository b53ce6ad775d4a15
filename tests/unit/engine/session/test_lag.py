"""A session adds a lag report to the writes that it makes anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from sublet.decisions.session.lag import seen_after
from sublet.engine.session.lag import SessionLag
from sublet.handler import Batch
from sublet.ports import Refusal
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import ROW_BYTES_MAX, bytes_of
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import WriteKind
from sublet.protocol.records import GetRecordsReply
from sublet.settings import Checkpointing
from sublet.testing.memory import FakeClock
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.engine_world import CONTINUOUS, MINUTE, NO_WAITING, SECOND, EngineWorld

HOUR = timedelta(hours=1)


def report(world: EngineWorld) -> LagReport:
    row = world.table.lease()
    assert row.lag_report is not None
    assert bytes_of(encode_row(row)) <= ROW_BYTES_MAX
    return row.lag_report


def test_shard_at_its_tip_reports_no_lag_and_its_last_arrival() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("a")
    world.clock.advance(MINUTE)
    arrived_at = world.clock.now()
    world.put("b")
    world.clock.advance(MINUTE)
    world.window()
    said = report(world)
    assert (said.lag, said.arrived_at) == (timedelta(0), arrived_at)
    assert timedelta(0) <= world.clock.now() - said.at < SECOND


def test_lag_is_the_age_of_the_first_uncheckpointed_record_during_a_call() -> None:
    """Heartbeats say it. Its own poll had found nothing behind the page."""
    world = EngineWorld(replace(CONTINUOUS, batch_size=1, checkpoint_interval=HOUR))
    world.put("a", "b")
    arrived_at, seen = world.clock.now(), list[tuple[datetime, LagReport]]()

    def busy(_: Batch) -> None:
        world.tasks.sleep(5 * MINUTE)
        seen.append((world.clock.now(), report(world)))

    world.handler.script = busy
    world.window(lasts=8 * MINUTE)
    for now, said in seen:
        assert said.lag is not None
        assert said.lag == said.at - arrived_at
        assert now - said.at <= CONTINUOUS.heartbeat_interval * 1.2
    assert len(seen) == 2


def test_lag_grows_while_a_handler_keeps_a_batch_uncheckpointed() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpointing=Checkpointing.MANUAL))
    world.put("a")
    world.clock.advance(MINUTE)
    world.at(MINUTE, lambda: world.put("b"))
    batches: list[Batch] = []
    world.handler.script = batches.append
    at_half: list[LagReport] = []
    world.at(5 * MINUTE, lambda: at_half.append(report(world)))
    arrived_at = world.clock.now() - MINUTE
    world.window(lasts=8 * MINUTE)
    (half,) = at_half
    assert half.lag == half.at - arrived_at
    assert half.arrived_at is None


def test_rates_cover_the_time_between_two_reports_even_without_a_reader() -> None:
    world = EngineWorld(NO_WAITING)
    world.window()
    first = report(world)
    assert (first.bytes_per_second, first.records_per_second) == (None, None)
    world.clock.advance(50 * SECOND)
    world.put(*["x" * 100] * 20)
    world.window()
    said = report(world)
    seconds = (said.at - first.at).total_seconds()
    assert said.records_per_second is not None
    assert abs(said.records_per_second - 20 / seconds) <= 0.1
    assert said.bytes_per_second is not None
    assert abs(said.bytes_per_second - 2000 / seconds) <= 1


def test_lag_reports_make_no_write_of_their_own() -> None:
    """A checkpoint each checkpoint_interval in which something was handled, and heartbeats between them, as without
    reports.
    """
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=30 * SECOND, heartbeat_interval=10 * SECOND))
    world.put("a", "b", "c")
    world.at(MINUTE, lambda: world.put("d"))
    world.window(lasts=2 * MINUTE)
    assert Counter(world.table.kinds()) == {
        WriteKind.ACQUIRE: 1,
        WriteKind.CHECKPOINT: 2,
        WriteKind.HEARTBEAT: 10,
    }


def test_the_last_ten_reports_stay_in_the_row_a_minute_apart() -> None:
    """So that one look at it shows where the shard is heading."""
    world = EngineWorld(replace(CONTINUOUS, batch_size=1, checkpoint_interval=timedelta(0)))
    world.put(*map(str, range(30)))
    world.handler.script = lambda _: world.tasks.sleep(MINUTE / 2)
    world.window(lasts=13 * MINUTE)
    seen = world.table.lease().lag_history
    assert len(seen) == 10
    assert all(MINUTE <= later.at - earlier.at < 2 * MINUTE for earlier, later in pairwise(seen))
    assert [each.lag for each in seen] == sorted(each.lag or HOUR for each in seen)


def test_an_idle_shard_s_reports_are_not_rewritten() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.window(lasts=20 * MINUTE)
    assert len(world.table.lease().lag_history) == 1


def lag_of(row: Lease) -> SessionLag:
    clock = FakeClock()
    return SessionLag(row, clock, TurnTaking(clock).lock())


def test_session_reports_no_lag_after_a_move_back() -> None:
    """It has read from elsewhere, and ends."""
    lag = lag_of(Lease("shard", Checkpoint("50")))
    assert lag.report(Checkpoint("60")) is not None
    assert lag.report(Checkpoint("50")) is None


def test_a_report_of_a_checkpoint_whose_arrival_is_not_known_is_not_kept() -> None:
    """Among the others, which are ordered by arrival, it would look like the shard's beginning: as if it had been moved
    back.
    """
    before = (LagSeen(FakeClock().now() - HOUR / 2, timedelta(0), FakeClock().now() - HOUR),)
    of_another = lag_of(Lease("shard", Checkpoint("50"), lag_history=before)).report(Checkpoint("50"))
    assert of_another is not None
    assert of_another[1] == before
    at_its_beginning = lag_of(Lease("shard", TRIM_HORIZON, lag_history=before)).report(TRIM_HORIZON)
    assert at_its_beginning is not None
    assert len(at_its_beginning[1]) == 2


def test_a_lease_s_lag_goes_on_growing_over_its_next_owner_s_first_heartbeats() -> None:
    """The handler fails, the lease is released and acquired again, and the first poll takes a while."""
    settings = replace(CONTINUOUS, handler_attempts=2, heartbeat_interval=10 * SECOND)
    world = EngineWorld(settings)
    world.put("a")
    world.window()
    arrived_at = world.clock.now()
    world.put("poison")
    world.handler.script = fails
    world.window()
    first = report(world)
    assert first.waits_since == arrived_at
    seen: list[LagReport] = []

    def slow(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        if len(seen) < 3:
            world.tasks.sleep(MINUTE)
            seen.append(report(world))
        return poll()

    world.stream.disturb = slow
    world.window(lasts=5 * MINUTE)
    assert [said.waits_since for said in seen] == [arrived_at] * len(seen)
    assert first.at < seen[0].at < seen[-1].at
    history = world.table.lease().lag_history
    assert None not in [each.lag for each in history[1:]]


def fails(_: Batch) -> None:
    raise ValueError


def test_a_report_that_says_nothing_is_replaced_by_the_next_one() -> None:
    now = FakeClock().now()
    empty = LagSeen(now, None, now - HOUR)
    known = LagReport(now + 10 * SECOND, MINUTE, now - HOUR)
    assert seen_after((empty,), known) == (LagSeen(now + 10 * SECOND, MINUTE, now - HOUR),)


def test_the_lag_is_that_of_the_record_that_follows_and_not_of_the_one_before() -> None:
    """Two records arrive an hour apart, and the second fails: the next owner, which reads from there, would say
    less.
    """
    world = EngineWorld(replace(CONTINUOUS, batch_size=1, checkpoint_interval=timedelta(0), handler_attempts=2))
    world.put("a")
    world.clock.advance(HOUR)
    arrived_at = world.clock.now()
    world.put("poison")
    world.handler.script = lambda batch: fails(batch) if batch.records[0].data == b"poison" else None
    world.window()
    assert report(world).waits_since == arrived_at
