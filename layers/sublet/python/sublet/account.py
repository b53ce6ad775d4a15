"""What a context needs of the world: an account's streams, and the tables of their consumers. Implemented in aws/ and memory/."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from sublet.ports import Clock, Log, Ports, Signal, Stream, Tasks
from sublet.settings import Settings

if TYPE_CHECKING:
    from sublet.decisions.stream_changes import Change
    from sublet.protocol.records import NewRecord
    from sublet.protocol.stream_identity import StreamIdentity
    from sublet.protocol.stream_info import AccountInfo, PutRecord, StreamInfo


class Account(Protocol):
    """One account and region. A stream is named by its name, or by its ARN.

    Raises StreamNotFound, StreamAccessDenied and StreamUnavailable; of tables what LeaseTable raises.
    """

    @property
    def clock(self) -> Clock: ...

    @property
    def tasks(self) -> Tasks: ...

    @property
    def log(self) -> Log:
        """Of the consumers whose ports are made of it."""

    def streams(self) -> Iterator[str]:
        """The names of all streams, in order."""

    def info(self, stream: str) -> StreamInfo: ...

    def create(self, stream: str, shards: int | None) -> None:
        """Begin to make it: on demand unless it is told how many shards. Raises StreamExists."""

    def change(self, stream: str, change: Change) -> None:
        """Begin to."""

    def delete(self, stream: str) -> None:
        """Begin to delete it, with all that is in it."""

    def put(self, stream: str, record: NewRecord) -> PutRecord:
        """Retried while the stream cannot take it; if a response was lost on the way, it may be put twice."""

    def reading(self, stream: str) -> Stream:
        """The Stream port, of no consumer."""

    def limits(self) -> AccountInfo: ...

    def compose(
        self, settings: Settings, stop: Signal, *, may_create: bool, say: Callable[[str], None] | None = None
    ) -> tuple[Ports, Settings]:
        """A consumer's ports, and its settings with the stream's ARN. The stream comes first: no table is made for one that is
        not there. The signal cuts it short.

        `say` is told of each table that is made; without it the log is. Raises LeaseTableNotFound unless it may create.
        """

    def applications(self) -> Iterator[str]:
        """The names of all that have a sightings table, in order."""

    def stream_of(self, application: str) -> StreamIdentity | None:
        """What its leases are of; None where nobody knows."""

    def delete_tables(self, settings: Settings) -> None:
        """Of an application: the leases first, so that nobody goes on. Raises LeaseTableNotFound where there is none of them, and
        LeaseTableKeyUnexpected, before anything is deleted, if one is no table of a consumer."""
