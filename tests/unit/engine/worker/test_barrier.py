"""A window of kept leases ends while one of them is in a long call: the others continue until that call has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sublet.decisions.session.window import AfterWindow, SessionOutcome, WindowReport
from sublet.engine.worker.barrier import LONGEST_WAIT, WindowBarrier
from sublet.handler import Batch
from sublet.ports import Task
from sublet.settings import Mode
from sublet.testing.memory import FakeClock
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.engine_world import MINUTE, NO_WAITING, SECOND, SHARD, EngineWorld

OTHER = "shardId-000000000001"
KEEPS = replace(NO_WAITING, mode=Mode.CONTINUOUS, handler_concurrency=2)


class World:
    """Two shards and windows of a minute; a call with "slow" takes ten."""

    def __init__(self) -> None:
        self.engine = EngineWorld(KEEPS, shards=2)
        self.began = self.engine.clock.steady()
        self.handled: list[tuple[str, timedelta]] = []
        self.engine.handler.script = self.handle
        self.worker = self.engine.worker()
        self.stop = self.engine.tasks.signal()
        self.engine.put("slow", shard=0, of=2)
        self.put_later(3 * MINUTE)

    def handle(self, batch: Batch) -> None:
        for record in batch.records:
            if record.data == b"slow":
                self.engine.tasks.sleep(10 * MINUTE)
            self.handled.append((record.data.decode(), self.now))

    @property
    def now(self) -> timedelta:
        return self.engine.clock.steady() - self.began

    def put_later(self, at: timedelta, data: str = "other") -> None:
        self.engine.at(at, lambda: self.engine.put(data, shard=1, of=2))

    def window(self, **options: Any) -> WindowReport:
        return self.engine.window(worker=self.worker, stop=self.stop, **options)

    def owner_at(self, at: timedelta, lease_key: str) -> list[str | None]:
        seen: list[str | None] = []
        self.engine.at(at, lambda: seen.append(self.engine.table.lease(lease_key).lease_owner))
        return seen


def test_the_others_go_on_until_a_long_call_has_ended_and_all_are_kept() -> None:
    world = World()
    report = world.window()
    assert [data for data, _ in world.handled] == ["other", "slow"]
    assert world.handled[0][1] < 3 * MINUTE + 10 * SECOND
    assert report.next is AfterWindow.AGAIN
    assert sorted(claim.lease_key for claim in report.item.claims) == [SHARD, OTHER]
    assert 10 * MINUTE <= world.now < 10 * MINUTE + 10 * SECOND
    assert world.engine.table.lease(OTHER).checkpoint.is_sequence_number
    assert {lease.outcome for lease in report.leases} == {SessionOutcome.WINDOW_ENDED}


def test_a_slow_session_that_continues_holds_no_other_up() -> None:
    world = World()
    world.put_later(9 * MINUTE, "slow")
    world.engine.at(12 * MINUTE, lambda: world.engine.put("first", shard=0, of=2))
    world.window()
    assert [data for data, _ in world.handled] == ["other", "slow", "first", "slow"]
    assert world.handled[2][1] < 12 * MINUTE + 10 * SECOND


def test_running_lease_is_released_on_request() -> None:
    world = World()
    world.engine.at(4 * MINUTE, lambda: world.worker.release([OTHER]))
    owner = world.owner_at(4 * MINUTE + 10 * SECOND, OTHER)
    report = world.window()
    assert owner == [None]
    assert [claim.lease_key for claim in report.item.claims] == [SHARD]


@pytest.mark.parametrize("wait", [timedelta(0), SECOND])
def test_waiting_lease_is_released_on_request(wait: timedelta) -> None:
    world = World()
    world.engine.at(MINUTE + wait, lambda: world.worker.release([OTHER]))
    owner = world.owner_at(MINUTE + 10 * SECOND, OTHER)
    world.window()
    assert owner == [None]


def test_waiting_lease_goes_on_from_its_moved_checkpoint() -> None:
    world = World()

    def move_back() -> None:
        row: dict[str, Any] = {**(world.engine.table.real.row(OTHER) or {})}
        world.engine.table.real.put_row({**row, "checkpoint": {"S": "TRIM_HORIZON"}})

    world.engine.at(5 * MINUTE, move_back)
    report = world.window()
    assert [data for data, _ in world.handled] == ["other", "other", "slow"]
    assert world.now < 10 * MINUTE + 10 * SECOND
    assert len(report.item.claims) == 2


def test_every_session_ends_when_the_process_is_to_end() -> None:
    world = World()
    world.engine.at(4 * MINUTE, world.stop.set)
    owner = world.owner_at(4 * MINUTE + 10 * SECOND, OTHER)
    assert world.window().next is not AfterWindow.AGAIN
    assert owner == [None]


def test_no_session_continues_if_the_runtime_ends_the_process() -> None:
    world = World()
    world.window(margin=11 * MINUTE)
    assert [data for data, _ in world.handled] == ["slow"]


class Meeting:
    """A barrier whose leases each wait in their own task."""

    def __init__(self, *names: str) -> None:
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock)
        self.barrier = WindowBarrier(self.tasks)
        for name in names:
            self.barrier.join(name)

    def comes(self, name: str) -> Task[tuple[bool, datetime]]:
        return self.tasks.spawn(lambda: (self.barrier.wait(name), self.clock.steady()))


def test_barrier_ends_when_all_have_come_or_left() -> None:
    meeting = Meeting("a", "b", "c")
    began = meeting.clock.steady()
    first, second = meeting.comes("a"), meeting.comes("b")
    meeting.tasks.sleep(SECOND)
    meeting.barrier.leave("c")
    assert first.result() == second.result() == (True, began + SECOND)
    assert len(meeting.barrier) == 2


def test_no_session_waits_for_long() -> None:
    meeting = Meeting("a", "b")
    began = meeting.clock.steady()
    assert meeting.comes("a").result() == (False, began + LONGEST_WAIT)


def test_a_session_that_continued_is_notified_once_no_other_is_missing() -> None:
    meeting = Meeting("a", "b")
    meeting.comes("a").result()
    come = meeting.tasks.signal()
    meeting.barrier.go_on("a", come)
    assert not come.is_set()
    late = meeting.comes("b")
    meeting.tasks.sleep(SECOND)
    assert come.is_set()
    assert meeting.comes("a").result()[0]
    assert late.result()[0]


def test_a_session_that_continues_as_the_last_one_leaves_is_notified_at_once() -> None:
    meeting = Meeting("a", "b")
    meeting.comes("a").result()
    meeting.barrier.leave("b")
    come = meeting.tasks.signal()
    meeting.barrier.go_on("a", come)
    assert come.is_set()


def test_a_session_that_waits_again_is_not_recalled() -> None:
    barrier = (meeting := Meeting("a", "b")).barrier
    meeting.comes("a").result()
    of_a, of_b = meeting.tasks.signal(), meeting.tasks.signal()
    barrier.go_on("a", of_a)
    meeting.comes("a")
    meeting.tasks.sleep(SECOND)
    barrier.go_on("b", of_b)
    assert of_b.is_set()
    assert not of_a.is_set()
