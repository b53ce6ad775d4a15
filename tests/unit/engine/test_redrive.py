"""A redrive hands set-aside records over once more, in order, removes what succeeds, and keeps what fails again."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sublet.errors import DestinationRefused
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.handlers.load import handler_of
from sublet.operate.redrive import Redrive, RedriveProgress
from sublet.ports import HeldBack, KeptBatch, RemovalResult, StoreCounts
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import Checkpointing, HandlerContract, Settings
from sublet.testing.memory import FakeClock, MemoryDestination, MemoryLog

AT = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
SETTINGS = Settings(application="orders", stream="events", handler="orders:handle")


def batch(first: int, shard: str = "shard-a", application: str = "orders", second: int | None = None) -> SetAsideBatch:
    records = tuple(
        UserRecord(str(number).encode(), "key", 0, StreamRecord(str(number), b"", "key", AT))
        for number in (first, first + 1 if second is None else second)
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


@dataclass
class Given:
    """A store that gives what it is made of. `answers`: what removing each says, by name; or raises."""

    given: Iterable[KeptBatch | HeldBack]
    answers: Mapping[str, RemovalResult | BaseException] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    counts: list[StoreCounts] = field(default_factory=lambda: [StoreCounts(0)])
    closed: bool = False

    def put(self, batch: SetAsideBatch) -> None: ...

    def counted(self) -> StoreCounts:
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    def kept(self, _: str) -> Generator[KeptBatch | HeldBack, None, None]:
        try:
            yield from self.given
        finally:
            self.closed = True

    def remove(self, kept: KeptBatch) -> RemovalResult:
        answer = self.answers.get(kept.name, RemovalResult.REMOVED)
        if isinstance(answer, BaseException):
            raise answer
        self.removed.append(kept.name)
        return answer

    def hold(self) -> None: ...

    def leave(self, kept: KeptBatch) -> None:
        self.left.append(kept.name)


class Redriving:
    def __init__(self, *kept: SetAsideBatch, store: Given | None = None) -> None:
        self.store, self.log = MemoryDestination() if store is None else store, MemoryLog()
        self.calls: list[Batch] = []
        self.checkpointed: list[bool] = []
        """What each checkpoint of a bad batch's first record was answered."""
        self.bad: set[str] = set()
        self.shown: list[RedriveProgress] = []
        for each in kept:
            self.store.put(each)

    def handle(self, given: Batch) -> None:
        self.calls.append(given)
        if given.records[0].sequence_number in self.bad:
            self.checkpointed.append(given.checkpoint(given.records[0]))
            raise ValueError("still bad")

    def run(self, **changes: Any) -> RedriveProgress:
        redrive = Redrive(self.store, HandlerFunctions(self.handle), SETTINGS, FakeClock(), self.log, self.shown.append)
        return replace(redrive, **changes).run()

    @property
    def called(self) -> list[tuple[str, str]]:
        return [(given.shard_id, given.records[0].sequence_number) for given in self.calls]


def kept_in(redriving: Redriving) -> list[SetAsideBatch | None]:
    return [each.batch for each in redriving.store.kept("orders") if isinstance(each, KeptBatch)]


def test_each_shard_is_done_in_its_order_and_nothing_is_left() -> None:
    redriving = Redriving(batch(100), batch(9), batch(20, "shard-b"), batch(30))
    assert redriving.run() == RedriveProgress(batches=4, records_done=8, done=4)
    assert redriving.called == [("shard-a", "9"), ("shard-a", "30"), ("shard-a", "100"), ("shard-b", "20")]
    assert kept_in(redriving) == []
    assert redriving.calls[0].attempt == 4
    assert redriving.calls[0].stream == "events"


def test_a_batch_tells_how_long_its_call_may_take() -> None:
    """As on Lambda and in a process, although nothing gives the call up."""
    clock, told = FakeClock(AT), list[int]()

    def handle(given: Batch) -> None:
        clock.advance(timedelta(seconds=4))
        told.append(given.remaining_time_in_millis())

    destination = MemoryDestination()
    destination.put(batch(1))
    settings = replace(SETTINGS, handler_timeout=timedelta(seconds=10))
    Redrive(destination, HandlerFunctions(handle), settings, clock, MemoryLog()).run()
    assert told == [6_000]


def test_redrive_keeps_a_batch_that_fails_again_and_goes_on() -> None:
    redriving = Redriving(batch(100), batch(200))
    redriving.bad = {"100"}
    done = redriving.run()
    assert (done.done, done.failed, done.stays) == (1, 1, 1)
    assert kept_in(redriving) == [batch(100)]
    assert redriving.checkpointed == [False], "nothing is written anywhere"
    (line,) = redriving.log.lines
    assert (line.fields["first"], line.fields["last"], line.fields["error"]) == ("100", "101", "ValueError")
    redriving.bad = set()
    assert redriving.run().stays == 0


class Kept:
    """As one that opens something for each lease. `checkpoints`: where it checkpoints by hand, and how much of a
    batch.
    """

    def __init__(self, checkpoints: str = "", fails: str = "") -> None:
        self.told: list[str] = []
        self.batches: list[Batch] = []
        self.checkpoints, self.fails = checkpoints, fails

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint) -> None:
        self._told("lease_acquired", shard_id, str(checkpoint))

    def handle(self, given: Batch) -> None:
        self.batches.append(given)
        self._told("handle", given.shard_id)
        if self.checkpoints == "a part":
            assert given.checkpoint(given.records[0])

    def lease_releasing(self, shard_id: str) -> None:
        if self.checkpoints == "all":
            assert self.batches[-1].checkpoint(self.batches[-1].records[-1])
        self._told("lease_releasing", shard_id)

    def _told(self, what: str, *about: str) -> None:
        self.told.append(" ".join((what, *about)))
        if what == self.fails:
            raise SystemExit(4)


MANUAL = replace(SETTINGS, checkpointing=Checkpointing.MANUAL)


def test_the_handler_learns_of_a_lease_as_in_the_engine() -> None:
    redriving, kept = Redriving(batch(100), batch(20, "shard-b")), Kept()
    assert redriving.run(handler=handler_of(kept)).done == 2
    assert kept.told == [
        "lease_acquired shard-a TRIM_HORIZON",
        "handle shard-a",
        "lease_releasing shard-a",
        "lease_acquired shard-b TRIM_HORIZON",
        "handle shard-b",
        "lease_releasing shard-b",
    ]


@pytest.mark.parametrize(
    ("fails", "told", "is_done"),
    [
        ("lease_acquired", ["lease_acquired"], False),
        ("handle", ["lease_acquired", "handle", "lease_releasing"], False),
        ("lease_releasing", ["lease_acquired", "handle", "lease_releasing"], True),
    ],
)
def test_whichever_call_fails_the_lease_is_released_and_others_go_on(
    fails: str, told: list[str], is_done: bool
) -> None:
    """Also by what would end the program."""
    redriving, kept = Redriving(batch(100)), Kept(fails=fails)
    assert redriving.run(handler=handler_of(kept)).stays == (0 if is_done else 1)
    assert [each.partition(" ")[0] for each in kept.told] == told
    (line,) = redriving.log.lines
    assert (line.message.startswith("batch finished"), line.fields["error"]) == (is_done, "SystemExit")


@pytest.mark.parametrize("checkpoints", ["", "a part", "all"])
def test_redrive_keeps_a_batch_until_a_manual_handler_checkpoints_its_end(checkpoints: str) -> None:
    redriving, kept = Redriving(batch(100)), Kept(checkpoints)
    done = redriving.run(handler=handler_of(kept, MANUAL), settings=MANUAL)
    assert (done.done, done.failed) == ((1, 0) if checkpoints == "all" else (0, 1))
    assert not kept.batches[0].checkpoint(kept.batches[0].records[-1]), "its lease is over"


@pytest.mark.parametrize("checkpoints", [True, False])
def test_a_record_processor_is_asked_to_shut_down_and_its_checkpoint_counts(checkpoints: bool) -> None:
    class Processor:
        version = 3

        def initialize(self, _: Any) -> None: ...

        def process_records(self, _: Any) -> None: ...

        def lease_lost(self, _: Any) -> None: ...

        def shutdown_requested(self, given: Any) -> None:
            if checkpoints:
                given.checkpointer.checkpoint()

    settings = replace(SETTINGS, handler_contract=HandlerContract.RECORD_PROCESSOR)
    redriving = Redriving(batch(100), batch(200))
    done = redriving.run(handler=handler_of(Processor, settings), settings=settings)
    assert done.done == (2 if checkpoints else 0)


def test_redrive_finishes_a_batch_checkpointed_to_its_end_before_a_failure() -> None:
    def handle(given: Batch) -> None:
        given.checkpoint(given.records[-1])
        raise ValueError("in what comes after")

    assert Redriving(batch(100)).run(handler=HandlerFunctions(handle)).done == 1


def test_redrive_fails_a_batch_checkpointed_at_a_foreign_record() -> None:
    def handle(given: Batch) -> None:
        given.checkpoint(batch(200).records[0])

    redriving = Redriving(batch(100))
    assert redriving.run(handler=HandlerFunctions(handle)).failed == 1
    assert redriving.log.lines[0].fields["error"] == "ValueError"


def test_ctrl_c_in_a_call_ends_the_redrive_and_removes_nothing() -> None:
    def handle(_: Batch) -> None:
        raise KeyboardInterrupt

    redriving = Redriving(batch(100))
    with pytest.raises(KeyboardInterrupt):
        redriving.run(handler=HandlerFunctions(handle))
    assert len(kept_in(redriving)) == 1


def test_a_dry_run_calls_nothing_and_removes_nothing() -> None:
    redriving, found = Redriving(batch(100), batch(200)), list[SetAsideBatch]()
    assert redriving.run(dry_run=True, found=found.append) == RedriveProgress(batches=2, records_done=4, done=2)
    assert found == [batch(100), batch(200)]
    assert redriving.calls == []
    assert len(kept_in(redriving)) == 2


def test_redrive_leaves_batches_of_other_applications() -> None:
    redriving = Redriving(batch(100, application="audit"), batch(200))
    done = redriving.run()
    assert (done.done, done.foreign) == (1, 1)
    assert replace(done, failed=2).stays == 3
    assert redriving.called == [("shard-a", "200")]
    assert kept_in(redriving) == [batch(100, application="audit")]


@pytest.mark.parametrize("dry_run", [False, True])
def test_redrive_leaves_every_kept_batch_visible_at_once(dry_run: bool) -> None:
    others = [KeptBatch(name, batch(300, application="audit")) for name in ("other", "another")]
    store = Given([KeptBatch("bad", batch(100)), KeptBatch("good", batch(200)), *others])
    redriving = Redriving(store=store)
    redriving.bad = {"100"}
    redriving.run(dry_run=dry_run)
    assert store.left == (["bad", *(["good"] if dry_run else []), "other", "another"])
    why = [line.fields["problem"] for line in redriving.log.lines if line.message == "batch left in place"]
    assert why == ["of the application audit"], "each reason once"


@pytest.mark.parametrize(
    ("raises", "what"), [(True, "failed again, and stays"), (False, "was not checkpointed, and stays")]
)
def test_the_log_says_why_a_batch_stays(raises: bool, what: str) -> None:
    def handle(_: Batch) -> None:
        if raises:
            raise ValueError("still bad")

    redriving = Redriving(batch(100))
    redriving.run(handler=HandlerFunctions(handle), settings=replace(SETTINGS, checkpointing=Checkpointing.MANUAL))
    assert [line.message for line in redriving.log.lines] == [what]


def test_redrive_handles_a_duplicate_once_and_removes_both() -> None:
    twice = [KeptBatch("one", batch(100)), KeptBatch("two", batch(100)), KeptBatch("three", None, "no JSON")]
    store = Given(twice)
    redriving = Redriving(store=store)
    done = redriving.run()
    assert store.removed == ["one", "two"]
    assert len(redriving.calls) == 1
    assert (done.records_done, done.foreign) == (2, 1)


def test_a_batch_that_begins_alike_and_is_as_large_is_no_repeat() -> None:
    """After a crash the same records are grouped differently, above all with parallelization_factor."""
    redriving = Redriving(batch(100), batch(100, second=103))
    assert redriving.run().done == 2
    handled = {record.sequence_number for given in redriving.calls for record in given.records}
    assert handled == {"100", "101", "103"}


def test_each_batch_is_shown() -> None:
    redriving = Redriving(batch(100), batch(200), batch(300))
    redriving.run()
    assert [shown.done for shown in redriving.shown] == [1, 2, 3]
    assert {shown.batches for shown in redriving.shown} == {3}


def test_redrive_asks_for_a_batch_when_the_one_before_is_done() -> None:
    """So that as few as can be are in memory, and nothing that is left waits for the rest."""
    removed: list[list[str]] = []

    def given() -> Iterator[KeptBatch]:
        for first in (100, 200):
            removed.append(list(store.removed))
            yield KeptBatch(str(first), batch(first))

    store = Given(given())
    Redriving(store=store).run()
    assert [*removed, store.removed] == [[], ["100"], ["100", "200"]]


def test_an_unreadable_batch_is_left_alone_and_reported() -> None:
    redriving = Redriving(store=Given([KeptBatch("one", None, "no JSON")]))
    assert redriving.run().foreign == 1
    (line,) = redriving.log.lines
    assert line.fields == {"kept_as": "one", "problem": "no JSON"}


@pytest.mark.parametrize("fault", [DestinationRefused("gone"), KeyboardInterrupt()])
def test_redrive_gives_up_its_batch_and_closes_the_store_on_a_fault(fault: BaseException) -> None:
    """The one in hand is left; the store is told that no more are wanted, and sees to the others."""
    store = Given([KeptBatch(name, batch(100)) for name in ("one", "two")], {"one": fault})
    redriving = Redriving(store=store)
    with pytest.raises(type(fault)):
        redriving.run()
    assert store.left == ["one"]
    assert store.closed
    assert len(redriving.calls) == 1


def test_a_batch_is_known_to_be_redriven() -> None:
    redriving = Redriving(batch(100))
    redriving.run()
    assert redriving.calls[0].is_redrive


def test_overwritten_batch_stays_and_is_reported() -> None:
    store = Given([KeptBatch("one", batch(100)), KeptBatch("two", batch(200))], {"one": RemovalResult.STAYS})
    done = Redriving(store=store).run()
    assert (done.done, done.changed, done.stays, done.records_done) == (1, 1, 1, 4)


def test_redrive_stops_when_another_removed_its_batch() -> None:
    """The first to find that what it has handled was removed by the other, which goes on."""
    given = [KeptBatch(name, batch(100)) for name in ("one", "two")]
    store = Given(given, {"one": RemovalResult.GONE})
    redriving = Redriving(store=store)
    done = redriving.run()
    assert (done.is_shared, done.done, len(redriving.calls)) == (True, 0, 1)
    assert store.closed


def test_redrive_counts_batches_held_back_and_names_their_groups() -> None:
    """Of 31 there are ten that fail again, and one of another application's; 2 more, that somebody else was given, are
    hidden.
    """
    given = [KeptBatch(str(first), batch(first)) for first in range(10, 30, 2)]
    foreign = KeptBatch("foreign", batch(300, application="audit"))
    store = Given([*given, foreign, HeldBack("orders.shard-a", 10)], counts=[StoreCounts(29, 2), StoreCounts(27, 2)])
    redriving = Redriving(store=store)
    redriving.bad = {str(first) for first in range(10, 30, 2)}
    done = redriving.run()
    assert (done.held_back, done.behind, done.stays) == (("orders.shard-a",), 16, 27)
    assert redriving.log.lines[-1].fields == {"message_group": "orders.shard-a", "stay": 10}


def pauses(rate: float | None, *, dry_run: bool = False, call_takes: timedelta = timedelta(0)) -> list[float]:
    """Of a redrive of three batches of two records each, in seconds."""
    clock, paused = FakeClock(), list[float]()

    def pause(duration: timedelta) -> None:
        paused.append(duration.total_seconds())
        clock.advance(duration)

    def handle(_: Batch) -> None:
        clock.advance(call_takes)

    store = MemoryDestination()
    for each in (batch(1), batch(11), batch(21)):
        store.put(each)
    handler = HandlerFunctions(handle)
    Redrive(store, handler, SETTINGS, clock, MemoryLog(), dry_run=dry_run, max_rate=rate, pause=pause).run()
    return paused


@pytest.mark.parametrize(
    ("rate", "call_takes", "expected"),
    [(2, 0, [1, 1]), (0.5, 0, [4, 4]), (2, 0.75, [0.25, 0.25]), (2, 5, []), (None, 0, [])],
)
def test_batches_are_kept_to_a_rate_of_records(rate: float | None, call_takes: float, expected: list[float]) -> None:
    assert pauses(rate, call_takes=timedelta(seconds=call_takes)) == expected


def test_a_dry_run_waits_for_nothing() -> None:
    assert pauses(0.001, dry_run=True) == []
