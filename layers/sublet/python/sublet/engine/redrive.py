"""Handing set-aside records to the handler once more: in order per shard, and what succeeds is removed from where it was kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from sublet.engine.exception_fields import exception_fields
from sublet.errors import DestinationRefused
from sublet.handler import Batch, Handler
from sublet.ports import Clock, KeptBatch, Log, SetAsideStore
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
        call = Batch(
            batch.stream, batch.shard_id, batch.records, behind // MILLISECOND, _is_written_nowhere,
            batch.stream_arn, batch.attempts + 1,
        )  # fmt: skip
        try:
            self.handler.handle(call)
        except Exception as failure:  # noqa: BLE001 - whatever the user's code raises
            self.log.error(
                "failed again, and stays",
                shard_id=batch.shard_id,
                first=str(first.checkpoint),
                last=str(last.checkpoint),
                **exception_fields(failure, self.settings.log_exceptions),
            )
            return False
        return True


def _is_written_nowhere(_: UserRecord) -> bool:
    """A part of a batch that was set aside cannot be removed."""
    return False
