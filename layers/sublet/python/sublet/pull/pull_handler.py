"""The Handler port of a pull consumer: puts batches into the buffer, and checkpoints what is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sublet.decisions.pull.pull_events import EventKind
from sublet.handler import Batch
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.pull.buffer import Buffer
from sublet.pull.events import LeaseEvents


@dataclass(frozen=True, slots=True)
class PullHandler:
    """The sessions' threads call this. A call waits until the program wants its records, so a process with this handler
    has no `handler_timeout`, and allows as many concurrent handler calls as it has leases.
    """

    buffer: Buffer
    lease_events: LeaseEvents
    is_pulled: ClassVar[bool] = True

    def handle(self, batch: Batch) -> None:
        self.buffer.offer(batch)

    def lease_acquired(
        self,
        shard_id: str,
        checkpoint: Checkpoint,
        pending: PendingCheckpoint | None = None,  # noqa: ARG002 - this handler prepares no checkpoints
    ) -> None:
        self.buffer.open_shard(shard_id)
        self.lease_events.begin(shard_id, checkpoint)

    def lease_releasing(self, shard_id: str) -> None:
        """Sends no event: WatchedTable does, when the release is written."""
        self._leave(shard_id)

    def lease_lost(self, shard_id: str) -> None:
        self._leave(shard_id)
        self.lease_events.end(shard_id, EventKind.LEASE_LOST)

    def shard_ended(self, shard_id: str) -> None:
        """Waits until all of the shard is acknowledged: only then may its children begin."""
        if self.buffer.wait_until_done(shard_id):
            self._leave(shard_id)
            self.lease_events.end(shard_id, EventKind.SHARD_ENDED)

    def _leave(self, shard_id: str) -> None:
        self.buffer.checkpoint(shard_id)
        self.buffer.close_shard(shard_id)
