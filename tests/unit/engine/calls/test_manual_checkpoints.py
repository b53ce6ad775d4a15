"""Manual checkpointing: returning asks for more, and only `batch.checkpoint` says what is done, at any later time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.errors import LeaseTableUnavailable
from sublet.handler import Batch, CheckpointReply
from sublet.metric_names import Metric
from sublet.ports import Applied, Refused
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint, PendingCheckpoint
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import Checkpointing, Settings

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    only,
    raising,
)

MANUAL = replace(NO_WAITING, checkpointing=Checkpointing.MANUAL)
KEPT = replace(CONTINUOUS, checkpointing=Checkpointing.MANUAL)


def finishing(place: int) -> Callable[[Batch], None]:
    """A handler's script that checkpoints one record of each batch."""

    def script(batch: Batch) -> None:
        batch.checkpoint(batch.records[place])

    return script


def checkpoints(world: EngineWorld) -> list[float]:
    return [
        (write.at - world.began).total_seconds() for write in world.table.writes if write.kind is WriteKind.CHECKPOINT
    ]


def test_returning_only_asks_for_more() -> None:
    world = EngineWorld(replace(MANUAL, batch_size=1))
    world.put("a", "b", "c")
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [b"a", b"b", b"c"]
    assert str(world.table.lease().checkpoint) == "TRIM_HORIZON"
    world.window()
    assert world.handler.data() == [b"a", b"b", b"c"] * 2, "the next owner begins at the checkpoint"


def test_failures_are_not_written_to_the_row_because_their_records_are_unknown() -> None:
    world = EngineWorld(MANUAL)
    world.put("a")
    world.handler.script = raising(ValueError())
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    assert world.table.lease().attempts == 0


def test_checkpoint_at_tells_its_result() -> None:
    world = EngineWorld(MANUAL)
    world.put("a", "b", "c")
    works, said = world.table.disturb, list[CheckpointReply]()

    def script(batch: Batch) -> None:
        first, second, third = (record.checkpoint for record in batch.records)
        said.append(batch.checkpoint_at(first))
        world.table.disturb = raising(LeaseTableUnavailable("timed out"))
        said.append(batch.checkpoint_at(second))
        world.table.disturb = works
        world.steal()
        said.append(batch.checkpoint_at(third))

    world.handler.script = script
    world.window()
    assert said == [CheckpointReply.WRITTEN, CheckpointReply.OUT_OF_REACH, CheckpointReply.TOO_LATE]


def test_checkpoint_at_is_too_late_after_an_operator_moved_the_lease_back() -> None:
    world = EngineWorld(MANUAL)
    world.put("a", "b")
    said: list[CheckpointReply] = []

    def script(batch: Batch) -> None:
        if not said:
            said.append(batch.checkpoint_at(batch.records[0].checkpoint))
            world.change_lease(checkpoint=TRIM_HORIZON)
            said.append(batch.checkpoint_at(batch.records[1].checkpoint))

    world.handler.script = script
    world.window()
    assert said == [CheckpointReply.WRITTEN, CheckpointReply.TOO_LATE]


def test_checkpoint_at_is_too_late_when_the_lease_is_kept_for_another_window() -> None:
    world = EngineWorld(KEPT)
    world.put("a")
    assert only(world.window()).kept is not None
    (batch,) = world.handler.batches
    assert batch.checkpoint_at(batch.records[0].checkpoint) is CheckpointReply.TOO_LATE
    assert world.table.lease().checkpoint == TRIM_HORIZON


def test_a_record_of_an_earlier_batch_is_checkpointed_later_and_at_once() -> None:
    world = EngineWorld(replace(MANUAL, batch_size=1, checkpoint_interval=timedelta(hours=1)))
    first, second, _ = world.put("a", "b", "c")
    said: list[bool] = []
    stored: list[str] = []

    def script(batch: Batch) -> None:
        if batch.records[0].data == b"c":
            kept = world.handler.batches[1]
            said.append(kept.checkpoint(kept.records[0]))
            stored.append(str(world.table.lease().checkpoint))

    world.handler.script = script
    world.window()
    assert said == [True]
    assert stored == [second], "written before the call returned, whatever checkpoint_interval says"
    assert str(world.table.lease().checkpoint) == second
    assert first < second


def test_checkpoint_tells_whether_the_table_has_it() -> None:
    world = EngineWorld(MANUAL)
    world.put("a")
    said: list[bool] = []
    is_out_of_reach = True

    def out_of_reach(write: LeaseWrite, apply: Callable[[], Applied | Refused]) -> Applied | Refused:
        if write.kind is WriteKind.CHECKPOINT and is_out_of_reach:
            raise LeaseTableUnavailable("not now")
        return apply()

    def script(batch: Batch) -> None:
        nonlocal is_out_of_reach
        said.append(batch.checkpoint(batch.records[0]))
        is_out_of_reach = False
        said.append(batch.checkpoint(batch.records[0]))

    world.table.disturb = out_of_reach
    world.handler.script = script
    world.window()
    assert said == [False, True]


def test_a_checkpoint_of_a_lost_lease_returns_false() -> None:
    world = EngineWorld(MANUAL)
    world.put("a")
    said: list[bool] = []

    def script(batch: Batch) -> None:
        world.steal()
        said.append(batch.checkpoint(batch.records[0]))

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    assert said == [False]


@pytest.mark.parametrize("settings", [MANUAL, KEPT], ids=["released", "kept"])
def test_checkpoint_after_the_window_returns_false_and_writes_nothing(settings: Settings) -> None:
    """A kept lease's next window was told where the row stands: a write in between would lose it."""
    world = EngineWorld(settings)
    world.put("a")
    report = world.window()
    [batch] = world.handler.batches
    before = world.table.lease()
    assert batch.checkpoint(batch.records[0]) is False
    assert batch.prepare_checkpoint(batch.records[0], b"state") is False
    assert world.table.lease() == before
    world.window(report.item if settings is KEPT else None)
    assert world.handler.data() == [b"a", b"a"]


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [(MANUAL, SessionOutcome.CAUGHT_UP), (KEPT, SessionOutcome.WINDOW_ENDED)],
    ids=["released", "kept"],
)
def test_the_handler_flushes_before_the_window_s_last_checkpoint(settings: Settings, outcome: SessionOutcome) -> None:
    """Also where the lease is kept: the next window begins at the checkpoint, in whichever process."""
    world = EngineWorld(settings)
    first, second = world.put("a", "b")
    said: list[bool] = []

    def flush(_: str) -> None:
        [batch] = world.handler.batches
        said.append(batch.checkpoint(batch.records[-1]))

    world.handler.on_releasing = flush
    report = world.window()
    assert only(report).outcome is outcome
    assert said == [True]
    assert str(world.table.lease().checkpoint) == second
    assert [call for call, _ in world.handler.calls] == ["lease_acquired", "handle", "lease_releasing"]
    if settings is KEPT:
        world.window(report.item)
        assert world.handler.data() == [b"a", b"b"]
        assert world.handler.calls[3] == ("lease_acquired", SHARD)
    assert first < second


def test_a_handler_that_checkpoints_seldom_does_not_stall() -> None:
    """The budget counts what is fetched and not yet returned: here it is full with each poll."""
    world = EngineWorld(
        replace(KEPT, batch_size=1, poll_limit=10, max_bytes_in_flight=20 * 2**20, max_records_in_flight=10_000)
    )
    at: list[float] = []
    kept: list[Batch] = []

    def script(batch: Batch) -> None:
        at.append(world.seconds())
        kept.append(batch)
        if len(kept) == 600:
            batch.checkpoint(batch.records[0])

    world.handler.script = script
    world.put(*map(str, range(600)))
    world.window(lasts=2 * MINUTE)
    assert len(at) == 600
    assert at[-1] < 30
    assert len(checkpoints(world)) == 1


def test_failed_call_repeats_only_uncheckpointed_records() -> None:
    world = EngineWorld(MANUAL)
    world.put("a", "b", "c")
    seen: list[list[bytes]] = []

    def script(batch: Batch) -> None:
        seen.append([record.data for record in batch.records])
        if len(seen) == 1:
            batch.checkpoint(batch.records[1])
            raise ValueError("not now")

    world.handler.script = script
    world.window()
    assert seen == [[b"a", b"b", b"c"], [b"c"]]


@pytest.mark.parametrize("is_all", [False, True])
def test_caught_up_is_written_only_if_all_that_was_delivered_is_finished(is_all: bool) -> None:
    world = EngineWorld(MANUAL)
    world.put("a", "b")
    world.handler.script = finishing(-1 if is_all else 0)
    world.window()
    assert (world.table.lease().caught_up_at is not None) == is_all


def test_a_shard_ends_only_when_all_is_checkpointed() -> None:
    world = EngineWorld(replace(MANUAL, handler_attempts=2))
    world.put("a")
    world.shards.split(SHARD)
    report = world.window(world.item(SHARD))
    [lease] = [lease for lease in report.leases if lease.lease_key == SHARD]
    assert lease.outcome is SessionOutcome.HANDLER_FAILED
    assert "HandlerContractBroken in shard_ended" in str(lease.problem)
    assert not world.table.lease().is_ended


def test_kept_batch_can_be_checkpointed_at_the_shard_end() -> None:
    world = EngineWorld(MANUAL)
    world.put("a")
    world.shards.split(SHARD)

    def flush(_: str) -> None:
        [batch] = [batch for batch in world.handler.batches if batch.shard_id == SHARD]
        batch.checkpoint(batch.records[-1])

    world.handler.on_ended = flush
    report = world.window(world.item(SHARD))
    assert report.leases[0].outcome is SessionOutcome.SHARD_ENDED
    assert world.table.lease().is_ended


def test_checkpoint_passes_a_dropped_aggregate_once_earlier_records_finish() -> None:
    """An aggregate of another shard's keys yields nothing: its place must not be read for ever, nor hide what is
    unfinished.
    """
    world = EngineWorld(replace(KEPT, poll_limit=1), shards=2)
    [first] = world.put("a", of=2)
    elsewhere = aggregate([("k", str(2**127 + 1), b"of the other shard")])
    dropped = world.shards.put("k", elsewhere, 0)
    asked: list[Checkpoint] = []

    def flush(_: str) -> None:
        if world.handler.batches:
            asked.append(world.table.lease().checkpoint)
            batch = world.handler.batches[0]
            batch.checkpoint(batch.records[0])

    world.handler.on_releasing = flush
    world.window(world.item(SHARD))
    assert str(asked[0]) == "TRIM_HORIZON"
    assert str(world.table.lease().checkpoint) == dropped
    assert int(first) < int(dropped)


def test_oldest_unfinished_age_is_put_for_kept_batches() -> None:
    world = EngineWorld(KEPT)
    world.put("a")
    world.at(90 * SECOND, lambda: world.put("b"))
    kept: list[Batch] = []

    def script(batch: Batch) -> None:
        kept.append(batch)

    def finish_first() -> None:
        kept[0].checkpoint(kept[0].records[0])

    world.handler.script = script
    world.at(7.5 * MINUTE, finish_first)
    world.window(lasts=9 * MINUTE)
    ages = [age / 60_000 for age in world.metrics.values(Metric.OLDEST_UNFINISHED_AGE)]
    assert [round(age) for age in ages[:8]] == [1, 2, 3, 4, 5, 6, 7, 6]
    assert world.metrics.values(Metric.OLDEST_UNFINISHED_AGE, SHARD), "of a shard in trouble on its own too"


@pytest.mark.parametrize("failures", [0, 1])
def test_a_handler_that_never_checkpoints_is_logged_now_and_then(failures: int) -> None:
    """Records that it got again after a failure count once."""
    world = EngineWorld(KEPT)
    world.put("a", "b", "c")

    def script(_: Batch) -> None:
        if len(world.handler.batches) <= failures:
            raise ValueError("not now")

    world.handler.script = script
    world.window(lasts=12.5 * MINUTE)
    told = [line.fields for line in world.log.lines if "has not checkpointed records" in line.message]
    assert [(line["shard_id"], line["records"], line["seconds"]) for line in told] == [
        (SHARD, 3, 300),
        (SHARD, 3, 600),
    ]
    assert str(told[0]["position"]) == "TRIM_HORIZON"


def test_oldest_unfinished_age_is_not_put_for_handlers_that_keep_nothing() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.window(lasts=3 * MINUTE)
    assert world.metrics.values(Metric.OLDEST_UNFINISHED_AGE) == []


def test_the_first_phase_is_written_and_given_to_the_next_owner_before_the_second() -> None:
    world = EngineWorld(MANUAL)
    first, second = world.put("a", "b")
    said: list[bool] = []

    def script(batch: Batch) -> None:
        said.append(batch.checkpoint(batch.records[0]))
        said.append(batch.prepare_checkpoint(batch.records[1], b"transaction 7"))

    world.handler.script = script
    world.window()
    lease = world.table.lease()
    assert said == [True, True]
    assert (str(lease.checkpoint), lease.pending) == (
        first,
        PendingCheckpoint(Checkpoint(second), b"transaction 7"),
    )
    world.handler.script = finishing(-1)
    world.window()
    assert world.handler.pending == [None, PendingCheckpoint(Checkpoint(second), b"transaction 7")]
    assert world.table.lease().pending is None, "the next checkpoint takes it away"


def test_prepare_checkpoint_refuses_a_record_of_another_batch() -> None:
    world = EngineWorld(MANUAL)
    world.put("a", "b")
    foreign = UserRecord(b"a", "k", 0, StreamRecord("9" * 56, b"a", "k", world.began))
    refused: list[str] = []

    def script(batch: Batch) -> None:
        try:
            batch.prepare_checkpoint(foreign, b"state")
        except ValueError as problem:
            refused.append(str(problem))

    world.handler.script = script
    world.window()
    assert refused == ["batch.prepare_checkpoint(record, state): the record is not one of this batch's records"]
    assert world.table.lease().pending is None


def test_prepare_checkpoint_does_nothing_for_checkpointed_records() -> None:
    world = EngineWorld(MANUAL)
    world.put("a", "b")
    said: list[bool] = []

    def script(batch: Batch) -> None:
        batch.checkpoint(batch.records[1])
        said.extend(batch.prepare_checkpoint(record, b"state") for record in batch.records)

    world.handler.script = script
    world.window()
    assert said == [False, False]
    assert world.table.lease().pending is None


def test_prepare_checkpoint_succeeds_when_its_response_is_lost() -> None:
    world = EngineWorld(MANUAL)
    world.put("a")
    world.table.lose_response_of(WriteKind.PREPARE)
    said: list[bool] = []
    world.handler.script = lambda batch: said.append(batch.prepare_checkpoint(batch.records[0], b"state"))
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert said == [True]
    assert world.table.lease().pending_checkpoint_state == b"state"


def test_automatic_checkpoint_tells_whether_it_is_written_already() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("a", "b")
    said: list[bool] = []
    world.handler.script = lambda batch: said.append(batch.checkpoint(batch.records[0]))
    world.window()
    assert said == [False], "it is due after checkpoint_interval"
    at_once = EngineWorld(replace(NO_WAITING, checkpoint_interval=timedelta(0)))
    at_once.put("a", "b")
    at_once.handler.script = lambda batch: said.append(batch.checkpoint(batch.records[0]))
    at_once.window()
    assert said == [False, True]
