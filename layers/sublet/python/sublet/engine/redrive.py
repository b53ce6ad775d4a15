"""Handing set-aside records to the handler once more: in order per shard, and what succeeds is removed from where it was kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from sublet.engine.exception_fields import exception_fields
from sublet.errors import DestinationRefused
from sublet.handler import Batch, CheckpointReply, Handler
from sublet.ports import Clock, KeptBatch, Log, SetAsideStore
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.failure_document import Place, SetAsideBatch
from sublet.protocol.records import UserRecord
from sublet.settings import Settings

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Redriven:
    """How far it is, of about so many `batches`. `foreign` are other applications' and what nobody can read: left alone.
    `hidden`: about how many somebody was given before.
    """

    batches: int = 0
    records_done: int = 0
    done: int = 0
    failed: int = 0
    foreign: int = 0
    hidden: int = 0

    @property
    def stays(self) -> int:
        return self.failed + self.foreign


@dataclass(frozen=True, slots=True)
class Redrive:
    """One run. `dry_run` calls nothing and removes nothing; `show` is told after each batch."""

    store: SetAsideStore
    handler: Handler
    settings: Settings
    clock: Clock
    log: Log
    show: Callable[[Redriven], None] = lambda _: None
    dry_run: bool = False

    def run(self) -> Redriven:
        """Raises DestinationRefused. What has not been handled then is kept as it was, and can be had again at once."""
        counted = self.store.counted()  # before we hide any ourselves
        so_far, handled = Redriven(counted.available, hidden=counted.hidden), None
        with closing(self.store.kept()) as kept:
            for each in kept:
                try:
                    so_far, handled = self._one(each, so_far, handled)
                except BaseException:
                    with suppress(DestinationRefused):  # the first fault is the one to be seen
                        self.store.leave(each.name)
                    raise
                self.show(so_far)
        return so_far

    def _one(self, kept: KeptBatch, so_far: Redriven, handled: Place | None) -> tuple[Redriven, Place | None]:
        """`handled` is what was handled last. What was set aside twice, since a crash came before the checkpoint, is its own
        neighbour, and handled once.
        """
        batch = kept.batch
        if batch is None or batch.application != self.settings.application:
            problem = kept.problem or f"of the application {batch and batch.application}"
            self.log.warning("left alone", kept_as=kept.name, problem=problem)
            self.store.leave(kept.name)
            return replace(so_far, foreign=so_far.foreign + 1), handled
        is_repeat = batch.place == handled
        if self.dry_run:
            self.store.leave(kept.name)
        elif is_repeat or self._handle(batch):
            self.store.remove(kept.name)
        else:
            self.store.leave(kept.name)
            return replace(so_far, failed=so_far.failed + 1), handled
        records = 0 if is_repeat else len(batch.records)
        done = replace(so_far, done=so_far.done + 1, records_done=so_far.records_done + records)
        return done, batch.place

    def _handle(self, batch: SetAsideBatch) -> bool:
        """Whether the handler has done all of it. Once: what fails again stays, and the next one has its turn."""
        first, last = batch.records[0], batch.records[-1]
        behind = max(self.clock.now() - last.approximate_arrival_timestamp, timedelta(0))
        life = LeaseLife(batch, is_by_hand=self.settings.is_checkpointed_by_hand)
        failure = life.live(self.handler, behind // MILLISECOND)
        if life.is_done and failure is None:
            return True
        stays = "was not checkpointed, and stays" if failure is None else "failed again, and stays"
        self.log.error(
            "done, and then failed" if life.is_done else stays,
            shard_id=batch.shard_id,
            first=str(first.checkpoint),
            last=str(last.checkpoint),
            **({} if failure is None else exception_fields(failure, self.settings.log_exceptions)),
        )
        return life.is_done


@dataclass(slots=True)
class LeaseLife:
    """What the handler is told of a batch: the same as of a lease with these records in the engine, and what is done is said in
    the same way. There is no lease: nothing is written down before the whole batch is removed.

    finished   up to there the handler has done it: by returning, or by checkpointing where that alone counts (`is_by_hand`)
    """

    batch: SetAsideBatch
    is_by_hand: bool
    finished: Checkpoint = field(default=TRIM_HORIZON, init=False)
    is_over: bool = field(default=False, init=False)

    @property
    def is_done(self) -> bool:
        return self.finished >= self.batch.records[-1].checkpoint

    def live(self, handler: Handler, millis_behind_latest: int) -> BaseException | None:
        """Acquired, handled, and released however that went; what was raised first. Where the batch's lease was when it was set
        aside nobody knows any more, so it begins before all records.
        """
        shard_id = self.batch.shard_id
        failure = _failure_of(partial(handler.lease_acquired, shard_id, TRIM_HORIZON))
        if failure is None:
            failure = _failure_of(partial(handler.handle, self._handed_over(millis_behind_latest)))
            if failure is None and not self.is_by_hand:
                self.finished = self.batch.records[-1].checkpoint
            at_its_end = _failure_of(partial(handler.lease_releasing, shard_id))
            failure = at_its_end if failure is None else failure
        self.is_over = True
        return failure

    def _handed_over(self, millis_behind_latest: int) -> Batch:
        batch = self.batch
        return Batch(
            batch.stream, batch.shard_id, batch.records, millis_behind_latest, self._checkpoint, batch.stream_arn,
            batch.attempts + 1, checkpoint_at=self._checkpoint_at,
        )  # fmt: skip

    def _checkpoint(self, record: UserRecord) -> bool:
        """Where checkpoints alone count, "not written" would mean that the lease is lost. A part of a batch cannot be removed:
        if the rest is not done, all of it comes again.
        """
        first, last = self.batch.records[0], self.batch.records[-1]
        if not first.checkpoint <= record.checkpoint <= last.checkpoint:
            raise ValueError("batch.checkpoint(record): the record is not one of this batch's records")
        return self._checkpoint_at(record.checkpoint) is CheckpointReply.WRITTEN and self.is_by_hand

    def _checkpoint_at(self, to: Checkpoint) -> CheckpointReply:
        if self.is_over:
            return CheckpointReply.TOO_LATE
        self.finished = max(self.finished, to)
        return CheckpointReply.WRITTEN


def _failure_of(call: Callable[[], None]) -> BaseException | None:
    """Whatever the user's code raises is the batch's, SystemExit and CancelledError too, but not who stops us at the terminal."""
    try:
        call()
    except KeyboardInterrupt:
        raise
    except BaseException as failure:  # noqa: BLE001 - as told
        return failure
    return None
