"""Calls the handler again with records that were set aside, each shard's in order, and removes those that succeed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.session.window import millis_left
from sublet.engine.exception_fields import exception_fields
from sublet.errors import DestinationRefused
from sublet.handler import Batch, CheckpointReply, Handler
from sublet.payloads.decoding import Decoder
from sublet.ports import HELD_EVERY, Clock, HeldBack, KeptBatch, Log, RemovalResult, SetAsideStore
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.records import UserRecord, decodable
from sublet.settings import Settings

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class RedriveProgress:
    """How far a redrive has come. All counts are of batches, except `records_done`.

    batches    about how many there were to begin with
    foreign    left alone: they belong to another application, or cannot be read
    changed    handled, but not removed: the store has something else in their place by now, or another consumer
               received them
    hidden     about how many another consumer had received before
    held_back  message groups of a FIFO queue: ten batches of each stay, so the queue delivers no more of the group
    behind     about how many were not reached because of these
    is_shared  it has stopped, because another redrive removes what this one handles
    missed     about how many were counted, and never came: other consumers or a dead-letter queue took them
    """

    batches: int = 0
    records_done: int = 0
    done: int = 0
    failed: int = 0
    foreign: int = 0
    changed: int = 0
    hidden: int = 0
    held_back: tuple[str, ...] = ()
    behind: int = 0
    is_shared: bool = False
    missed: int = 0

    @property
    def stays(self) -> int:
        return self.failed + self.foreign + self.changed + self.behind

    @property
    def is_complete(self) -> bool:
        """All that was counted has come, and been removed."""
        return not (self.stays or self.missed or self.is_shared)


@dataclass(slots=True)
class Redrive:
    """One run. `dry_run` neither calls the handler nor removes anything. `show` is called after each batch.

    handler   may be None in a dry run
    max_rate  records a second, on average; None: as fast as the handler
    pause     waits, between two batches
    decode    decodes records by the setting `payload_format`; None without it
    found     called in a dry run with each batch that would be handed over
    """

    store: SetAsideStore
    handler: Handler | None
    settings: Settings
    clock: Clock
    log: Log
    show: Callable[[RedriveProgress], None] = lambda _: None
    dry_run: bool = False
    max_rate: float | None = None
    pause: Callable[[timedelta], object] = lambda _: None
    decode: Decoder | None = None
    found: Callable[[SetAsideBatch], None] = lambda _: None
    _so_far: RedriveProgress = field(default=RedriveProgress(), init=False)
    _handed: int = field(default=0, init=False)
    """Records that the handler was called with, whether or not it finished them."""
    _handled: str | None = field(default=None, init=False)
    """The identity of the batch that was handled last."""
    _held_at: datetime = field(init=False)
    _logged: set[str] = field(default_factory=set, init=False)
    """The reasons for leaving batches alone that are in the log already."""

    def run(self) -> RedriveProgress:
        """Raises DestinationRefused. Batches that were not handled by then stay in the store, and another redrive can
        begin at once.
        """
        counted = self.store.counted()  # before we hide any ourselves
        self._so_far = RedriveProgress(counted.available, hidden=counted.hidden)
        began, seen = self.clock.steady(), 0
        self._held_at = began
        with closing(self.store.kept(self.settings.application)) as kept:
            for each in kept:
                if isinstance(each, HeldBack):
                    self._held_back(each)
                else:
                    self._take(each)
                self.show(self._so_far)
                if self._so_far.is_shared:
                    break
                seen += 1
                self._hold()
                if seen != counted.available:  # more than were counted may come
                    self._keep_to_rate(began)
        if self._so_far.held_back:
            self._count_behind()
        elif not self._so_far.is_shared:
            came = self._so_far.done + self._so_far.stays
            self._so_far = replace(self._so_far, missed=max(0, counted.available - came))
        return self._so_far

    def _hold(self) -> None:
        """What waits must not be received by others meanwhile, nor again by us: a dead-letter queue takes what is
        received too often.
        """
        if self.clock.steady() - self._held_at >= HELD_EVERY:
            self.store.hold()
            self._held_at = self.clock.steady()

    def _keep_to_rate(self, began: datetime) -> None:
        """Waits before the next batch is received: from then on it is hidden from others for a limited time, in which
        it must be handled.
        """
        if self.max_rate is None or self.dry_run:
            return
        ahead = timedelta(seconds=self._handed / self.max_rate) - (self.clock.steady() - began)
        while ahead > timedelta(0):
            self.pause(min(ahead, HELD_EVERY))
            self._hold()
            ahead -= HELD_EVERY

    def _take(self, kept: KeptBatch) -> None:
        try:
            self._one(kept)
        except BaseException:
            with suppress(DestinationRefused):  # the first fault is the one to be seen
                self.store.leave(kept)
            raise

    def _one(self, kept: KeptBatch) -> None:
        """A batch that was set aside twice, by a crash before the checkpoint, comes twice in a row and is handled
        once.
        """
        so_far, batch = self._so_far, kept.batch
        if batch is None or batch.application != self.settings.application:
            self._leave_alone(kept)
            self._so_far = replace(so_far, foreign=so_far.foreign + 1)
            return
        is_repeat = batch.identity == self._handled
        if self.dry_run:
            self.store.leave(kept)
            if not is_repeat:
                self.found(batch)
        elif not is_repeat and not self._handle(batch):
            self.store.leave(kept)
            self._so_far = replace(so_far, failed=so_far.failed + 1)
            return
        self._handled = batch.identity
        records = so_far.records_done + (0 if is_repeat else len(batch.records))
        removal = RemovalResult.REMOVED if self.dry_run else self.store.remove(kept)
        self._so_far = replace(
            so_far,
            records_done=records,
            done=so_far.done + (removal is RemovalResult.REMOVED),
            changed=so_far.changed + (removal is RemovalResult.STAYS),
            is_shared=removal is RemovalResult.GONE,
        )

    def _leave_alone(self, kept: KeptBatch) -> None:
        """Logs each reason once: other applications may have set much aside in the same bucket."""
        problem = kept.problem or f"of the application {kept.batch and kept.batch.application}"
        if problem not in self._logged:
            self._logged.add(problem)
            self.log.warning("batch left in place", kept_as=kept.name, problem=problem)
        self.store.leave(kept)

    def _held_back(self, held: HeldBack) -> None:
        self.log.warning(
            "message group blocked by messages left in the queue", message_group=held.group, stay=held.left
        )
        self._so_far = replace(self._so_far, held_back=(*self._so_far.held_back, held.group))

    def _count_behind(self) -> None:
        """Count the batches in the queue beyond those that we know of. A queue counts all its groups together."""
        counted, so_far = self.store.counted(), self._so_far
        known = so_far.failed + so_far.foreign + so_far.changed + so_far.hidden
        self._so_far = replace(so_far, behind=max(0, counted.available + counted.hidden - known))

    def _handle(self, batch: SetAsideBatch) -> bool:
        """Calls the handler once; a batch that fails again stays. Returns whether the handler has finished all of
        it.
        """
        self._handed += len(batch.records)
        first, last = batch.records[0], batch.records[-1]
        behind = max(self.clock.now() - last.approximate_arrival_timestamp, timedelta(0))
        decode = self.decode
        if decode is not None:
            batch = replace(batch, records=tuple(decodable(batch.records, decode)))
        assert self.handler is not None, "a dry run does not come here"
        life = LeaseLife(batch, self.clock, self.settings)
        failure = life.live(self.handler, behind // MILLISECOND)
        if life.is_done and failure is None:
            return True
        stays = "was not checkpointed, and stays" if failure is None else "failed again, and stays"
        self.log.error(
            "batch finished, but a later handler call failed" if life.is_done else stays,
            shard_id=batch.shard_id,
            first=str(first.checkpoint),
            last=str(last.checkpoint),
            **({} if failure is None else exception_fields(failure, self.settings.log_exceptions)),
        )
        return life.is_done


@dataclass(slots=True)
class LeaseLife:
    """Calls the handler's functions for a batch as the engine calls them for a lease, and tracks what is finished.
    There is no lease, so nothing is stored until the whole batch is removed.

    finished   how far the handler has come: by returning, or by checkpointing if only that counts
    """

    batch: SetAsideBatch
    clock: Clock
    settings: Settings
    finished: Checkpoint = field(default=TRIM_HORIZON, init=False)
    is_over: bool = field(default=False, init=False)

    @property
    def is_done(self) -> bool:
        return self.finished >= self.batch.records[-1].checkpoint

    def live(self, handler: Handler, millis_behind_latest: int) -> BaseException | None:
        """Calls lease_acquired, handle, and lease_releasing even if `handle` failed. Returns the first exception. The
        position of the batch's lease when it was set aside is not known, so lease_acquired gets TRIM_HORIZON.
        """
        shard_id = self.batch.shard_id
        failure = _failure_of(partial(handler.lease_acquired, shard_id, TRIM_HORIZON))
        if failure is None:
            failure = _failure_of(partial(handler.handle, self._handed_over(millis_behind_latest)))
            if failure is None and not self.settings.is_checkpointed_by_hand:
                self.finished = self.batch.records[-1].checkpoint
            at_its_end = _failure_of(partial(handler.lease_releasing, shard_id))
            failure = at_its_end if failure is None else failure
        self.is_over = True
        return failure

    def _handed_over(self, millis_behind_latest: int) -> Batch:
        batch, began_at = self.batch, self.clock.steady()

        def left() -> int:
            return millis_left(began_at, self.clock.steady(), None, self.settings)

        return Batch(
            batch.stream,
            batch.shard_id,
            batch.records,
            millis_behind_latest,
            self._checkpoint,
            batch.stream_arn,
            batch.attempts + 1,
            left,
            checkpoint_at=self._checkpoint_at,
            is_redrive=True,
        )

    def _checkpoint(self, record: UserRecord) -> bool:
        """With manual checkpointing this returns True, since False would mean that the lease is lost. A part of a batch
        cannot be removed: unless the rest is finished too, all of it comes again.
        """
        first, last = self.batch.records[0], self.batch.records[-1]
        if not first.checkpoint <= record.checkpoint <= last.checkpoint:
            raise ValueError("batch.checkpoint(record): the record is not one of this batch's records")
        return (
            self._checkpoint_at(record.checkpoint) is CheckpointReply.WRITTEN and self.settings.is_checkpointed_by_hand
        )

    def _checkpoint_at(self, to: Checkpoint) -> CheckpointReply:
        if self.is_over:
            return CheckpointReply.TOO_LATE
        self.finished = max(self.finished, to)
        return CheckpointReply.WRITTEN


def _failure_of(call: Callable[[], None]) -> BaseException | None:
    """What the user's code raised, SystemExit and CancelledError too. Ctrl-C is not caught."""
    try:
        call()
    except KeyboardInterrupt:
        raise
    except BaseException as failure:  # noqa: BLE001 - see the docstring
        return failure
    return None
