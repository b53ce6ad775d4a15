"""The memory of lease managers, without a network."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec.structs import replace

from sublet.decisions.manager.dispatching import PROMPTED_TICK_ENDS_WITHIN, DispatchedWorker, is_recent
from sublet.decisions.manager.joins_and_drains import Announcement
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.errors import LeaseTableNotFound
from sublet.ports import Remembered
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey


class MemorySightingStore:
    """The SightingStore port. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remembered = Remembered({})
        self._ticking: tuple[str, datetime] | None = None
        """The token of the tick that answers prompts, and when it began."""
        self._looks_again = False
        self._is_deleted = False

    def delete(self) -> None:
        """Delete the table: every later load raises LeaseTableNotFound."""
        with self._lock:
            self._remembered = Remembered({})
            self._is_deleted = True

    def _check_exists(self) -> None:
        if self._is_deleted:
            raise LeaseTableNotFound("the sightings table has been deleted")

    def load(self) -> Remembered:
        with self._lock:
            self._check_exists()
            return self._remembered

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        with self._lock:
            self._remembered = replace(self._remembered, sightings=dict(sightings))

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        with self._lock:
            if self._remembered.stream != instead_of:
                return False
            self._remembered = replace(self._remembered, stream=stream)
            return True

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        with self._lock:
            self._check_exists()
            if self._remembered.asked_at != seen.asked_at:
                return False
            self._remembered = replace(self._remembered, asked_at=now)
            return True

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        with self._lock:
            self._remembered = replace(self._remembered, placement=placement, asked_at=asked_at)

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        with self._lock:
            known = {**self._remembered.streams, **streams}
            self._remembered = replace(self._remembered, streams=known)

    def forget_stream(self, stream: StreamKey) -> None:
        with self._lock:
            known = {key: each for key, each in self._remembered.streams.items() if key != stream}
            self._remembered = replace(self._remembered, streams=known)

    def define(self, definition: Mapping[str, str], instead_of: Mapping[str, str] | None) -> bool:
        with self._lock:
            self._check_exists()
            if self._remembered.definition not in (instead_of, definition):
                return False
            self._remembered = replace(self._remembered, definition=dict(definition))
            return True

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
        with self._lock:
            if self._remembered.round != seen_round:
                return False
            self._remembered = replace(self._remembered, dispatched=dict(dispatched), round=seen_round + 1)
            return True

    def keep_unread(self, unread: Mapping[str, UnreadShard]) -> None:
        with self._lock:
            self._remembered = replace(self._remembered, unread=dict(unread))

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        with self._lock:
            stands = {who: told for who, told in self._remembered.announced.items() if who not in lapsed}
            self._remembered = replace(self._remembered, announced={**stands, worker_id: said})

    def begin_prompted(self, token: str, now: datetime) -> bool:
        with self._lock:
            if self._ticking is not None and is_recent(self._ticking[1], now, PROMPTED_TICK_ENDS_WITHIN):
                self._looks_again = True
                return False
            self._ticking, self._looks_again = (token, now), False
            return True

    def end_prompted(self, token: str) -> bool:
        with self._lock:
            if self._ticking is None or self._ticking[0] != token:
                return self._ticking is None
            self._ticking = None
            return self._looks_again
