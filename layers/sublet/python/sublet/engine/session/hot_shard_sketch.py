"""The sketch that a session makes of its shard, and stores every few minutes while the shard is hot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sublet.decisions.load.sketch_places import WARM
from sublet.decisions.load.sketching import Sketching
from sublet.errors import TransientError
from sublet.ports import Ports, Signal
from sublet.protocol.records import Page, UserRecord
from sublet.protocol.shard import HashKeyRange

STORED_EVERY = timedelta(minutes=5)
"""How long one sketch lasts before the next begins. The store merges the sketches of half an hour."""

WAITED_AT_END = timedelta(seconds=2)
"""How long the session's end waits for the store: Lambda may freeze the process after the window, and children wait to
be read.
"""


class SessionSketch:
    """The session's thread notes records. The window's thread, which shows metrics, stores the sketch, and so does the
    session at its end.

    If it cannot be stored, only the sketch is lost. A task of its own stores it, because a table that does not answer
    must hold up neither the other chores of the window nor the session's end.
    """

    def __init__(self, shard_id: str, hash_key_range: HashKeyRange | None, ports: Ports) -> None:
        self._shard_id, self._range, self._store = shard_id, hash_key_range, ports.sketches
        self._clock, self._chance, self._tasks, self._log = ports.clock, ports.chance, ports.tasks, ports.log
        self._lock = ports.tasks.lock()
        """Guards `_since` and `_making`, and makes sure that one task stores at a time. That task sets `_is_off` and
        `_is_storing` without it. No other lock is taken while it is held.
        """
        self._is_off = self._store is None
        self._is_storing = False
        self._begin()

    def _begin(self) -> None:
        self._since = self._clock.steady()
        self._making = Sketching(self._shard_id, self._range, self._chance, self._clock.now())

    def turn(self, page: Page) -> None:
        """Begins a page: the session handles it now."""
        if not self._is_off:
            with self._lock:
                self._making.turn(page)

    def see(self, records: Sequence[UserRecord]) -> None:
        """Each user record once, whether or not the handler wants it."""
        if not self._is_off:
            with self._lock:
                self._making.see(records)

    def drop(self, aggregates: int) -> None:
        """Counts aggregates that were dropped because they are outside the shard's range."""
        with self._lock:
            self._making.dropped += aggregates

    def store(self, *, is_last: bool = False) -> None:
        """Store the sketch if the shard is hot enough, when it is due or the session ends. Waits only at the end, and
        not for long.
        """
        with self._lock:
            is_due = is_last or self._clock.steady() - self._since >= STORED_EVERY
            if self._is_off or self._is_storing or not is_due:
                return
            made, self._is_off = self._making, is_last
            if not is_last:
                self._begin()
            is_hot = self._is_storing = made.heat >= WARM
        if not is_hot:
            return
        done = self._tasks.signal()
        try:
            self._tasks.spawn(lambda: self._keep(made, done))
        except RuntimeError:  # the machine is out of threads for now
            self._is_storing = False
            return
        if is_last:
            done.wait(WAITED_AT_END)

    def _keep(self, made: Sketching, done: Signal) -> None:
        assert self._store is not None, "without a store nothing is due"
        try:
            self._store.keep(made.sketch(self._clock.now()))
        except Exception as problem:  # noqa: BLE001 - whatever went wrong, it must not affect the records
            self._is_off = self._is_off or not isinstance(problem, TransientError)
            self._log.warning(
                "the sketch of a hot shard cannot be stored",
                shard_id=self._shard_id,
                error=type(problem).__name__,
                problem=str(problem),
            )
        finally:
            self._is_storing = False
            done.set()
