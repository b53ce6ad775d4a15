"""The Handler port of a pull consumer: what the engine reads goes into the buffer, and what is acknowledged is checkpointed."""

from __future__ import annotations

from dataclasses import dataclass

from sublet.consumer.buffer import Buffer
from sublet.consumer.tenures import Tenures
from sublet.decisions.pull_events import EventKind
from sublet.handler import Batch
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint


@dataclass(frozen=True, slots=True)
class PullHandler:
    """Called from the sessions' threads. A call waits for as long as nobody wants its records: such a process has no
    `handler_timeout`, and a slot for each lease."""

    buffer: Buffer
    tenures: Tenures

    def handle(self, batch: Batch) -> None:
        self.buffer.offer(batch)

    def lease_acquired(
        self,
        shard_id: str,
        checkpoint: Checkpoint,
        pending: PendingCheckpoint | None = None,  # noqa: ARG002 - ours has none
    ) -> None:
        self.buffer.open_shard(shard_id)
        self.tenures.begin(shard_id, checkpoint)

    def lease_releasing(self, shard_id: str) -> None:
        """It is told as released when the table says so (see WatchedTable)."""
        self._leave(shard_id)

    def lease_lost(self, shard_id: str) -> None:
        self._leave(shard_id)
        self.tenures.end(shard_id, EventKind.LEASE_LOST)

    def shard_ended(self, shard_id: str) -> None:
        """Not before all of it is acknowledged: then its children may follow."""
        if self.buffer.wait_until_done(shard_id):
            self._leave(shard_id)
            self.tenures.end(shard_id, EventKind.SHARD_ENDED)

    def _leave(self, shard_id: str) -> None:
        self.buffer.checkpoint(shard_id)
        self.buffer.close_shard(shard_id)
