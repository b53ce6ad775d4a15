"""Our own contract: the user's plain functions as the Handler port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sublet.handler import Batch
from sublet.handlers.contract import check_returned, finished
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint


def _nothing(*_: object) -> None:
    """Stands in for an optional function that the user has not written."""


@dataclass(frozen=True, slots=True)
class HandlerFunctions:
    """A handler made of plain functions; only the first is required. A call that left its work undone raises
    HandlerContractBroken.
    """

    handle_batch: Callable[[Batch], object]
    on_lease_acquired: Callable[..., object] = _nothing
    on_lease_releasing: Callable[[str], object] = _nothing
    on_lease_lost: Callable[[str], object] = _nothing
    on_shard_ended: Callable[[str], object] = _nothing
    wants_pending: bool = False
    """Whether lease_acquired also takes the pending checkpoint."""

    @property
    def without(self) -> frozenset[str]:
        given = {
            "lease_acquired": self.on_lease_acquired,
            "lease_releasing": self.on_lease_releasing,
            "lease_lost": self.on_lease_lost,
        }
        return frozenset(what for what, function in given.items() if function is _nothing)

    def handle(self, batch: Batch) -> None:
        check_returned(finished(self.handle_batch(batch)))

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        more = (pending,) if self.wants_pending else ()
        check_returned(finished(self.on_lease_acquired(shard_id, checkpoint, *more)))

    def lease_releasing(self, shard_id: str) -> None:
        check_returned(finished(self.on_lease_releasing(shard_id)))

    def lease_lost(self, shard_id: str) -> None:
        check_returned(finished(self.on_lease_lost(shard_id)))

    def shard_ended(self, shard_id: str) -> None:
        check_returned(finished(self.on_shard_ended(shard_id)))
