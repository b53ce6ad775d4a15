"""The sketch that a session makes of its shard, and stores every few minutes while the shard is hot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sublet.decisions.sketch_places import WARM
from sublet.decisions.sketching import Sketching
from sublet.errors import LeaseTableError
from sublet.ports import Ports
from sublet.protocol.records import Page, UserRecord
from sublet.protocol.shard import HashKeyRange

STORED_EVERY = timedelta(minutes=5)
"""Then the next sketch begins; the store puts those of half an hour together."""


class SessionSketch:
    """The session's thread notes records; the window's, which shows the metrics, stores the sketch, and the session at its end.

    If it cannot be stored, it is lost, and nothing else is.
    """

    def __init__(self, shard_id: str, hash_key_range: HashKeyRange | None, ports: Ports) -> None:
        self._shard_id, self._range, self._ports = shard_id, hash_key_range, ports
        self._lock = ports.tasks.lock()
        """Guards the fields below. No other lock is taken while it is held."""
        self._is_off = ports.sketches is None
        self._begin()

    def _begin(self) -> None:
        clock = self._ports.clock
        self._since = clock.steady()
        self._making = Sketching(self._shard_id, self._range, self._ports.chance, clock.now())

    def turn(self, page: Page) -> None:
        """The session begins to handle this page."""
        if not self._is_off:
            with self._lock:
                self._making.turn(page)

    def see(self, records: Sequence[UserRecord]) -> None:
        """Each user record once, whether or not the handler wants it."""
        if not self._is_off:
            with self._lock:
                self._making.see(records)

    def drop(self, aggregates: int) -> None:
        """So many were outside the shard's range."""
        with self._lock:
            self._making.dropped += aggregates

    def store(self, *, is_last: bool = False) -> None:
        """If it is due, or the session ends, and the shard is hot enough."""
        store, now = self._ports.sketches, self._ports.clock.steady()
        with self._lock:
            if store is None or self._is_off or not (is_last or now - self._since >= STORED_EVERY):
                return
            made = self._making
            self._begin()
        if made.heat < WARM:
            return
        sketch = made.sketch(self._ports.clock.now())
        try:
            store.keep(sketch)
        except LeaseTableError as problem:
            self._is_off = True
            self._ports.log.warning(
                "the sketch of a hot shard cannot be stored", shard_id=self._shard_id, problem=str(problem)
            )
