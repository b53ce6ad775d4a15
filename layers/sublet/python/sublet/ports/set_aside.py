"""Failure destinations, and reading back what they keep."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from sublet.protocol.failure_document import SetAsideBatch


class FailureDestination(Protocol):
    """Where records are set aside. Raises DestinationRefused."""

    def put(self, batch: SetAsideBatch) -> None:
        """Returns once all of them are stored. If it raises, some may be stored: the same batch is put again, and is
        then stored twice, or once if the destination can tell.
        """


class KeptBatch(Struct, frozen=True):
    """A batch that a destination keeps under a name. It has a `problem` instead of the batch if the batch belongs to
    another application or cannot be read. `version` identifies what was read, if the name may later stand for something
    else.
    """

    name: str
    batch: SetAsideBatch | None
    problem: str = ""
    version: str = ""


class HeldBack(Struct, frozen=True):
    """A FIFO queue's message group whose first messages were all left in the queue. There are as many as the queue
    returns of one group, so the later ones cannot be received.
    """

    group: str
    left: int


GIVEN_FOR = timedelta(minutes=15)
"""A window's length: a store gives a batch to no other consumer during this time."""


HELD_EVERY = GIVEN_FOR / 3
"""How often a redrive calls SetAsideStore.hold, except during a call of the handler."""


class StoreCounts(NamedTuple):
    """About how many batches a store keeps: those that are available, and those that another consumer has received."""

    available: int
    hidden: int = 0


class RemovalResult(StrEnum):
    """The result of removing a batch."""

    REMOVED = "removed"
    STAYS = "stays"
    """Something else was stored under its name since it was read, or another consumer has received it since."""
    GONE = "gone"
    """Another redrive has removed it meanwhile. Only a store that hides nothing from others can tell."""


class SetAsideStore(Protocol):
    """A failure destination that returns what it keeps. Raises DestinationRefused."""

    def counted(self) -> StoreCounts:
        """Batches that `kept` has returned are hidden, and available again after GIVEN_FOR."""

    def kept(self, application: str) -> Generator[KeptBatch | HeldBack, None, None]:
        """Yields every available batch, each shard's in order. Lazily: memory holds one batch, and the names of the
        others. Batches of other applications may be listed without being read. HeldBack comes last.

        Remove or leave each before asking for the next. No other consumer gets it for GIVEN_FOR, unless the store says
        that it cannot promise that; nor those that wait for their turn, for GIVEN_FOR since the last `hold`. Once this
        is closed, or has raised, others can get what it has not returned.
        """

    def remove(self, kept: KeptBatch) -> RemovalResult:
        """Delete a handled batch: exactly what was read, nothing else. Removing a batch that is gone is no error."""

    def hold(self) -> None:
        """Other consumers do not get what `kept` has received, and not yet returned, for another GIVEN_FOR."""

    def leave(self, kept: KeptBatch) -> None:
        """Keep it; any consumer may get it again."""
