"""The contract of kclpy's record processors as the Handler port: one instance per lease, which makes its own
checkpoints.

As in KCL, returning does not checkpoint. Unlike in KCL, raising does not skip the batch: it is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sublet.handler import Batch
from sublet.handlers.contract import finished
from sublet.handlers.kcl_checkpointer import KclCheckpointer
from sublet.handlers.kcl_inputs import (
    TERMINATE,
    ZOMBIE,
    InitializeInput,
    KclRecord,
    LeaseLostInput,
    ProcessRecordsInput,
    ShardEndedInput,
    ShutdownInput,
    ShutdownRequestedInput,
)
from sublet.handlers.shape import PROCESS_RECORDS, signature_of
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint


class LeaseProcessor(NamedTuple):
    """One lease's processor. `version`: of kclpy's interface, 1 to 3."""

    processor: Any
    version: int
    checkpointer: KclCheckpointer

    def initialize(self, shard_id: str, at: Checkpoint) -> None:
        given = InitializeInput(shard_id, at.sequence_number, at.sub_sequence_number)
        self._call("initialize", shard_id if self.version == 1 else given)

    def process_records(self, batch: Batch) -> None:
        self.checkpointer.write = batch.checkpoint_at
        self.checkpointer.first = self.checkpointer.first or batch.records[0].checkpoint
        self.checkpointer.given = max(self.checkpointer.given, batch.records[-1].checkpoint)
        records = [KclRecord(record) for record in batch.records]
        if self.version == 1:
            self._call("process_records", records, self.checkpointer)
        else:
            given = ProcessRecordsInput(
                records, batch.millis_behind_latest, self.checkpointer, is_redrive=batch.is_redrive
            )
            self._call("process_records", given)

    def shutdown_requested(self) -> None:
        """Calls the function if the processor has it: older ones may lack it."""
        if hasattr(self.processor, "shutdown_requested"):
            old, given = self.checkpointer, ShutdownRequestedInput(self.checkpointer)
            self._call("shutdown_requested", old if self.version == 1 else given)

    def lease_lost(self) -> None:
        self.checkpointer.is_gone = True
        if self.version > 2:
            self._call("lease_lost", LeaseLostInput())
        else:
            self._shutdown(ZOMBIE)

    def shard_ended(self) -> None:
        if self.version > 2:
            self._call("shard_ended", ShardEndedInput(self.checkpointer))
        else:
            self._shutdown(TERMINATE)

    def _shutdown(self, reason: str) -> None:
        if self.version == 1:
            self._call("shutdown", self.checkpointer, reason)
        else:
            self._call("shutdown", ShutdownInput(reason, self.checkpointer))

    def _call(self, what: str, *given: object) -> None:
        finished(getattr(self.processor, what)(*given))


@dataclass(frozen=True, slots=True)
class RecordProcessorHandler:
    """`make` makes a processor and is usually its class. `error`: the exception class of its checkpointers."""

    make: Callable[[], object]
    error: type[Exception]
    processing: dict[str, LeaseProcessor] = field(default_factory=dict)
    """The processors of the held leases, by shard id."""

    def lease_acquired(
        self,
        shard_id: str,
        checkpoint: Checkpoint,
        pending: PendingCheckpoint | None = None,  # noqa: ARG002 - kclpy has no call for it
    ) -> None:
        """An existing processor belongs to an earlier session: the lease's position was moved, or an earlier attempt at
        this call failed.
        """
        self.lease_lost(shard_id)
        processor = self.make()
        checkpointer = KclCheckpointer(self.error, checkpoint, checkpoint)
        processing = LeaseProcessor(processor, version_of(processor), checkpointer)
        processing.initialize(shard_id, checkpoint)
        self.processing[shard_id] = processing

    def handle(self, batch: Batch) -> None:
        self.processing[batch.shard_id].process_records(batch)

    def lease_releasing(self, shard_id: str) -> None:
        """Does what an ending MultiLangDaemon does: shutdown_requested, then lease_lost."""
        try:
            self.processing[shard_id].shutdown_requested()
        finally:
            self.lease_lost(shard_id)

    def lease_lost(self, shard_id: str) -> None:
        if processing := self.processing.pop(shard_id, None):
            processing.lease_lost()

    def shard_ended(self, shard_id: str) -> None:
        """Calls the processor again if it does not checkpoint, as KCL does: until then the shard does not end."""
        processing = self.processing[shard_id]
        processing.shard_ended()
        if processing.checkpointer.is_at_end:
            del self.processing[shard_id]


def version_of(processor: object) -> int:
    """Finds the version by the processor's base class in kclpy; without one, by its methods."""
    stated = getattr(processor, "version", None)
    return stated if stated in (1, 2, 3) else 3 if hasattr(processor, "lease_lost") else 2


def is_unstated_first(made_by: type) -> bool:
    """Whether its instances need version 1 without declaring it as a number: they take records and a checkpointer,
    while later versions take one input.
    """
    takes = signature_of(getattr(made_by, PROCESS_RECORDS))  # with `self`
    stated = getattr(made_by, "version", None)
    return (stated is None or isinstance(stated, str)) and takes is not None and takes.least == len(_OF_FIRST)


_OF_FIRST = ("self", "records", "checkpointer")
