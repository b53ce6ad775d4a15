"""A failure destination in memory."""

from __future__ import annotations

from collections.abc import Generator

from sublet.errors import DestinationRefused
from sublet.ports import KeptBatch, RemovalResult, StoreCounts
from sublet.protocol.failure_document import SetAsideBatch, object_key


class MemoryDestination:
    """The FailureDestination and SetAsideStore ports. `refusals`: how many of the next calls are refused.

    Like a bucket, it stores a batch only once, even if it is set aside twice. `taken`: every accepted call, in order.
    """

    def __init__(self) -> None:
        self.taken: list[SetAsideBatch] = []
        self.refusals = 0
        self._kept: dict[str, SetAsideBatch] = {}

    def put(self, batch: SetAsideBatch) -> None:
        if self.refusals > 0:
            self.refusals -= 1
            raise DestinationRefused("the destination in memory is set to refuse this")
        self.taken.append(batch)
        self._kept[object_key(batch, "")] = batch

    def counted(self) -> StoreCounts:
        return StoreCounts(len(self._kept))

    def kept(self, application: str) -> Generator[KeptBatch, None, None]:  # noqa: ARG002 - it reads all
        for name, batch in sorted(self._kept.items(), key=lambda item: item[1].place):
            yield KeptBatch(name, batch)

    def remove(self, kept: KeptBatch) -> RemovalResult:
        return RemovalResult.GONE if self._kept.pop(kept.name, None) is None else RemovalResult.REMOVED

    def hold(self) -> None:
        """Batches are never hidden here."""

    def leave(self, kept: KeptBatch) -> None:
        """Batches are never hidden here."""
