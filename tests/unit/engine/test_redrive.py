"""What was set aside is handed over once more, in order; what succeeds is removed, and what fails again stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sublet.engine.redrive import Redrive, Redriven
from sublet.errors import DestinationRefused
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.memory import FakeClock, MemoryDestination, MemoryLog
from sublet.ports import KeptBatch
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import Settings

AT = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
SETTINGS = Settings(application="orders", stream="events", handler="orders:handle")


def batch(first: int, shard: str = "shard-a", application: str = "orders") -> SetAsideBatch:
    records = tuple(
        UserRecord(str(number).encode(), "key", 0, StreamRecord(str(number), b"", "key", AT))
        for number in (first, first + 1)
    )
    return SetAsideBatch(
        application,
        "events",
        None,
        shard,
        records,
        "RetryAttemptsExhausted",
        3,
        AT,
        "item/1",
        "orders:handle",
    )


class Redriving:
    def __init__(self, *kept: SetAsideBatch) -> None:
        self.store, self.log = MemoryDestination(), MemoryLog()
        self.calls: list[Batch] = []
        self.bad: set[str] = set()
        self.shown: list[Redriven] = []
        for each in kept:
            self.store.put(each)

    def handle(self, given: Batch) -> None:
        self.calls.append(given)
        if given.records[0].sequence_number in self.bad:
            given.checkpoint(given.records[0])
            raise ValueError("still bad")

    def run(self, **changes: Any) -> Redriven:
        redrive = Redrive(
            self.store, HandlerFunctions(self.handle), SETTINGS, FakeClock(), self.log, self.shown.append
        )
        return replace(redrive, **changes).run()

    @property
    def called(self) -> list[tuple[str, str]]:
        return [(given.shard_id, given.records[0].sequence_number) for given in self.calls]


def test_each_shard_is_done_in_its_order_and_nothing_is_left() -> None:
    redriving = Redriving(batch(100), batch(9), batch(20, "shard-b"), batch(30))
    assert redriving.run() == Redriven(batches=4, records_done=8, done=4)
    assert redriving.called == [("shard-a", "9"), ("shard-a", "30"), ("shard-a", "100"), ("shard-b", "20")]
    assert list(redriving.store.kept()) == []
    assert redriving.calls[0].attempt == 4
    assert redriving.calls[0].stream == "events"


def test_what_fails_again_stays_and_holds_nothing_up() -> None:
    redriving = Redriving(batch(100), batch(200))
    redriving.bad = {"100"}
    done = redriving.run()
    assert (done.done, done.failed, done.stays) == (1, 1, 1)
    assert [each.batch for each in redriving.store.kept()] == [batch(100)]
    (line,) = redriving.log.lines
    assert (line.fields["first"], line.fields["last"], line.fields["error"]) == ("100", "101", "ValueError")
    redriving.bad = set()
    assert redriving.run().stays == 0


def test_a_dry_run_calls_nothing_and_removes_nothing() -> None:
    redriving = Redriving(batch(100), batch(200))
    assert redriving.run(dry_run=True) == Redriven(batches=2, records_done=4, done=2)
    assert redriving.calls == []
    assert len(list(redriving.store.kept())) == 2


def test_what_other_applications_put_there_is_left_alone() -> None:
    redriving = Redriving(batch(100, application="audit"), batch(200))
    done = redriving.run()
    assert (done.done, done.foreign) == (1, 1)
    assert redriving.called == [("shard-a", "200")]
    assert [each.batch for each in redriving.store.kept()] == [batch(100, application="audit")]


def test_what_was_set_aside_twice_is_handled_once_and_removed_twice() -> None:
    redriving, removed = Redriving(), list[str]()
    twice = [KeptBatch("one", batch(100)), KeptBatch("two", batch(100)), KeptBatch("three", None, "no JSON")]
    redriving.store.kept = lambda: (each for each in twice)  # type: ignore[method-assign]
    redriving.store.remove = removed.append  # type: ignore[method-assign, assignment]
    done = redriving.run()
    assert removed == ["one", "two"]
    assert len(redriving.calls) == 1
    assert (done.records_done, done.foreign) == (2, 1)


def test_each_batch_is_shown() -> None:
    redriving = Redriving(batch(100), batch(200), batch(300))
    redriving.run()
    assert [shown.done for shown in redriving.shown] == [1, 2, 3]
    assert {shown.batches for shown in redriving.shown} == {3}


def test_each_is_asked_for_when_the_one_before_is_done() -> None:
    """So that as few as can be are in memory, and nothing that is left waits for the rest."""
    redriving, steps = Redriving(), list[str]()

    def given() -> Any:
        for first in (100, 200):
            steps.append(f"asked for {first}")
            yield KeptBatch(str(first), batch(first))

    redriving.store.kept = given  # type: ignore[method-assign]
    redriving.store.remove = lambda name: steps.append(f"removed {name}")  # type: ignore[method-assign]
    redriving.run()
    assert steps == ["asked for 100", "removed 100", "asked for 200", "removed 200"]


def test_what_cannot_be_read_is_left_alone_and_told() -> None:
    redriving = Redriving()
    redriving.store.kept = lambda: (each for each in [KeptBatch("one", None, "no JSON")])  # type: ignore[method-assign]
    assert redriving.run().foreign == 1
    (line,) = redriving.log.lines
    assert line.fields == {"kept_as": "one", "problem": "no JSON"}


@pytest.mark.parametrize("fault", [DestinationRefused("gone"), KeyboardInterrupt()])
def test_what_is_not_handled_can_be_had_again_at_once(fault: BaseException) -> None:
    """The one in hand is left; the store is told that no more are wanted, and sees to the others."""
    redriving, left = Redriving(batch(100), batch(200), batch(300)), list[str]()

    def given() -> Any:
        try:
            yield from (KeptBatch(name, batch(100)) for name in ("one", "two"))
        finally:
            left.append("the others")

    def refuse(_: str) -> None:
        raise fault

    redriving.store.kept = given  # type: ignore[method-assign]
    redriving.store.remove = refuse  # type: ignore[method-assign, assignment]
    redriving.store.leave = left.append  # type: ignore[method-assign, assignment]
    with pytest.raises(type(fault)):
        redriving.run()
    assert left == ["one", "the others"]
    assert len(redriving.calls) == 1
