"""The sightings of a running fleet outlast their table: without it each process goes on with what it remembers itself,
and one that may make tables makes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import ClientError
from msgspec.structs import replace

from sublet.aws.tables.create_tables import has_leases, make_sightings_table
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.decisions.manager.dispatching import DispatchedWorker
from sublet.decisions.manager.joins_and_drains import Announcement
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.errors import LeaseTableNotFound
from sublet.ports import Log, Remembered
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")


class LastingSightings:
    """The SightingStore port. Not thread-safe, like the store that it wraps.

    It raises LeaseTableNotFound only where the lease table is missing or empty too: that may be another account or
    region, or an application that is being deleted, and its leases must not begin again at start_position.
    Announcements and prompts are lost meanwhile: they are for other processes.
    """

    def __init__(
        self, connect: Callable[[], DynamoDBClient], settings: Settings, log: Log, *, may_make: bool = False
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._log = log
        self._may_make = may_make
        self._table = DynamoDbSightingStore(connect, settings.sightings_table)
        self._known = Remembered({})
        """What this process last loaded, and what it has stored since then without a table."""
        self._is_gone = False

    def load(self) -> Remembered:
        self._try(self._load)
        return self._known

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        if not self._try(lambda: self._table.save(sightings)):
            self._known = replace(self._known, sightings=dict(sightings))

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        if done := self._try(lambda: self._table.adopt(stream, instead_of)):
            return done[0]
        is_stored = self._known.stream == instead_of
        if is_stored:
            self._known = replace(self._known, stream=stream)
        return is_stored

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        if done := self._try(lambda: self._table.begin_describing(now, seen)):
            return done[0]
        begins = self._known.asked_at == seen.asked_at
        if begins:
            self._known = replace(self._known, asked_at=now)
        return begins

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        if not self._try(lambda: self._table.keep_placement(placement, asked_at)):
            self._known = replace(self._known, placement=placement, asked_at=asked_at)

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        if not self._try(lambda: self._table.keep_streams(streams)):
            self._known = replace(self._known, streams={**self._known.streams, **streams})

    def forget_stream(self, stream: StreamKey) -> None:
        if not self._try(lambda: self._table.forget_stream(stream)):
            known = {key: each for key, each in self._known.streams.items() if key != stream}
            self._known = replace(self._known, streams=known)

    def define(self, definition: Mapping[str, str], instead_of: Mapping[str, str] | None) -> bool:
        """All programs share a definition, so this raises LeaseTableNotFound without a table."""
        return self._table.define(definition, instead_of)

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
        if done := self._try(lambda: self._table.keep_dispatched(dispatched, seen_round)):
            return done[0]
        is_stored = self._known.round == seen_round
        if is_stored:
            self._known = replace(self._known, dispatched=dict(dispatched), round=seen_round + 1)
        return is_stored

    def keep_unread(self, unread: Mapping[str, UnreadShard]) -> None:
        if not self._try(lambda: self._table.keep_unread(unread)):
            self._known = replace(self._known, unread=dict(unread))

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        self._try(lambda: self._table.announce(worker_id, said, lapsed))

    def begin_prompted(self, token: str, now: datetime) -> bool:
        done = self._try(lambda: self._table.begin_prompted(token, now))
        return done[0] if done else True

    def end_prompted(self, token: str) -> bool:
        done = self._try(lambda: self._table.end_prompted(token))
        return done[0] if done else False

    def _load(self) -> None:
        """A table that has just been made again is empty: what this process remembers is truer than nothing."""
        found = self._table.load()
        if self._is_gone:
            self._is_gone = False
            self._log.info("sightings table is back", table=self._settings.sightings_table)
            if found == Remembered({}):
                found = Remembered(self._known.sightings)
        self._known = found

    def _try(self, call: Callable[[], T]) -> tuple[T] | None:
        """The reply; None without a table."""
        try:
            return (call(),)
        except LeaseTableNotFound as missing:
            if not has_leases(self._connect(), self._settings):
                raise
            self._go_on(missing)
            return None

    def _go_on(self, missing: LeaseTableNotFound) -> None:
        is_known, self._is_gone = self._is_gone, True
        problem = self._make()
        if is_known and not problem:
            return
        self._known = (
            self._known
            if is_known
            else Remembered(
                self._known.sightings,
                self._known.stream,
                unread=self._known.unread,
                streams=self._known.streams,
                placement=self._known.placement,
            )
        )
        self._log.warning(
            "sightings table is missing; continuing with what this process remembers",
            problem=str(missing),
            made_again="yes"
            if self._may_make and not problem
            else f"no: {problem or 'this process may not make tables'}",
            until="`sublet run` without --no-create, or the stack, makes it; pauses and snapshots were lost with it",
        )

    def _make(self) -> str:
        """Returns why the table could not be made. Tried again by each call until it is refused."""
        if not self._may_make:
            return ""
        try:
            make_sightings_table(self._connect(), self._settings)
        except ClientError as refused:
            self._may_make = False
            return str(refused)
        return ""
