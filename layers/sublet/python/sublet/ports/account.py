"""The Account port: an account's streams, and the tables of their consumers. Implemented in aws/ and memory/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sublet.ports import Clock, Log, Ports, RecordWriter, Remembered, Signal, Stream, Tasks
from sublet.settings import Settings

if TYPE_CHECKING:
    from sublet.decisions.streams.stream_changes import Change
    from sublet.protocol.control import Control
    from sublet.protocol.lease import LeaseScan
    from sublet.protocol.records import NewRecord
    from sublet.protocol.stream_identity import StreamIdentity
    from sublet.protocol.stream_info import AccountInfo, PutRecord, StreamInfo


Tags = Mapping[str, str | None]
"""Tag values by name. None matches any value."""

ALL: Tags = MappingProxyType({})


class ApplicationRows(NamedTuple):
    """`remembered` and `control` are None for an application without a sightings table, such as a Java KCL's, and for
    one whose sightings may not be read: `problem` then says why.
    """

    scan: LeaseScan
    remembered: Remembered | None = None
    control: Control | None = None
    problem: str | None = None


class Account(Protocol):
    """One account and region. A stream is given by its name or its ARN.

    Raises StreamNotFound, StreamAccessDenied and StreamUnavailable; for tables, what LeaseTable raises.
    """

    @property
    def clock(self) -> Clock: ...

    @property
    def tasks(self) -> Tasks: ...

    @property
    def log(self) -> Log:
        """The log of the consumers that `compose` makes."""

    def streams(self) -> Iterator[str]:
        """The names of all streams, in order."""

    def info(self, stream: str) -> StreamInfo: ...

    def create(self, stream: str, shards: int | None) -> None:
        """Start creating the stream, in on-demand mode if `shards` is None. Raises StreamExists."""

    def change(self, stream: str, change: Change) -> None:
        """Start the change."""

    def delete(self, stream: str) -> None:
        """Start deleting the stream and all its records."""

    def put(self, stream: str, record: NewRecord) -> PutRecord:
        """Put one record, again and again while the stream cannot take it. If a response is lost, the record may be put
        twice.
        """

    def reading(self, stream: str) -> Stream:
        """The Stream port, without a consumer."""

    def writing(self, stream: str) -> RecordWriter:
        """The RecordWriter port. Makes no call."""

    def limits(self) -> AccountInfo: ...

    def compose(
        self, settings: Settings, stop: Signal, *, may_create: bool, say: Callable[[str], None] | None = None
    ) -> tuple[Ports, Settings]:
        """A consumer's ports, and its settings with the stream's ARN. The stream is looked up first, so that no table
        is created for a missing one. `stop` interrupts its waits.

        `say` gets a line for each table created; without it the log does. Raises LeaseTableNotFound if a table is
        missing and it may not create one.
        """

    def applications(self) -> Iterator[str]:
        """The names of all applications that have a sightings table, in order."""

    def tables(self, tags: Tags = ALL) -> Iterator[str]:
        """The names of the account's DynamoDB tables, in order. With `tags`, only of the tables that have all of these
        tags.
        """

    def application_rows(self, table: str) -> ApplicationRows | None:
        """What is stored for the application that has this lease table. None if the table's key is not that of a lease
        table.
        """

    def stream_of(self, application: str) -> StreamIdentity | None:
        """The stream that its leases belong to; None if that is not known."""

    def delete_tables(self, settings: Settings) -> None:
        """Delete an application's tables, the leases first, so that no worker goes on. Raises LeaseTableNotFound if
        there is no lease table, and LeaseTableKeyUnexpected, before anything is deleted, if one is not a consumer's
        table.
        """
