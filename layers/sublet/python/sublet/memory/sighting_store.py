"""What lease managers remember, in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sublet.decisions.liveness import Sighting
from sublet.ports import Remembered
from sublet.protocol.stream_identity import StreamIdentity


class MemorySightingStore:
    """The SightingStore port. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sightings: Mapping[str, Sighting] = {}
        self._stream: StreamIdentity | None = None

    def load(self) -> Remembered:
        with self._lock:
            return Remembered(dict(self._sightings), self._stream)

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        with self._lock:
            self._sightings = dict(sightings)

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        with self._lock:
            if self._stream != instead_of:
                return False
            self._stream = stream
            return True
