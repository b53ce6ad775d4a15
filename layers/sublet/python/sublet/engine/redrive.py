"""Handing set-aside records to the handler once more: in order per shard, and what succeeds is removed from where it was kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from sublet.engine.exception_fields import exception_fields
from sublet.errors import DestinationRefused
from sublet.handler import Batch, Handler
from sublet.ports import Clock, KeptBatch, Log, SetAsideStore
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.records import UserRecord
from sublet.settings import Settings

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Redriven:
    """How far it is. `foreign` are other applications' and what nobody can read: left alone. `hidden`: about how many
    somebody was given before.
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
        hidden = self.store.hidden()  # before we hide any ourselves
        kept = self.store.kept()
        waiting = {each.name: None for each in kept}
        try:
            ours, others = self._sorted_out(kept)
            so_far = Redriven(len(kept), foreign=len(others), hidden=hidden)
            for each in others:
                self.store.leave(each.name)
                del waiting[each.name]
            handled: set[tuple[object, ...]] = set()
            for name, batch in ours:
                so_far = self._one(name, batch, handled, so_far)
                del waiting[name]
                self.show(so_far)
        except BaseException:
            with suppress(DestinationRefused):  # the first fault is the one to be seen
                for name in waiting:
                    self.store.leave(name)
            raise
        return so_far

    def _sorted_out(
        self, kept: Sequence[KeptBatch]
    ) -> tuple[list[tuple[str, SetAsideBatch]], list[KeptBatch]]:
        ours, others = [], []
        for each in kept:
            if each.batch is None or each.batch.application != self.settings.application:
                problem = each.problem or f"of the application {each.batch and each.batch.application}"
                self.log.warning("left alone", kept_as=each.name, problem=problem)
                others.append(each)
            else:
                ours.append((each.name, each.batch))
        return sorted(ours, key=lambda found: _place(found[1])), others

    def _one(
        self, name: str, batch: SetAsideBatch, handled: set[tuple[object, ...]], so_far: Redriven
    ) -> Redriven:
        """What was set aside twice, since a crash came before the checkpoint, is handled once."""
        if self.dry_run:
            self.store.leave(name)
            return replace(
                so_far, done=so_far.done + 1, records_done=so_far.records_done + len(batch.records)
            )
        which = (*_place(batch), len(batch.records))
        if which not in handled and not self._handle(batch):
            self.store.leave(name)
            return replace(so_far, failed=so_far.failed + 1)
        records = 0 if which in handled else len(batch.records)
        handled.add(which)
        self.store.remove(name)
        return replace(so_far, done=so_far.done + 1, records_done=so_far.records_done + records)

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


def _place(batch: SetAsideBatch) -> tuple[str, int, int]:
    first = batch.records[0]
    return batch.shard_id, int(first.sequence_number), first.sub_sequence_number
