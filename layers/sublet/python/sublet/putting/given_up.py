"""The records that a producer has given up: an error for the program's next flush, and a line in the log once a
minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sublet.decisions.plurals import counted
from sublet.decisions.putting.producing import SettledRecords
from sublet.errors import RecordsNotPut
from sublet.ports import Clock, Log, Tasks

LOGGED_EVERY = timedelta(minutes=1)


class GivenUp:
    """Safe for threads."""

    def __init__(self, clock: Clock, tasks: Tasks, log: Log) -> None:
        self._clock, self._log = clock, log
        self._lock = tasks.lock()
        """Guards all fields below. Not held while a line is logged."""
        self._count = self._unlogged = 0
        self._first: Exception | None = None
        self._logged_at: datetime | None = None

    def note(self, settled: Sequence[SettledRecords]) -> None:
        failed = [(some, some.outcome) for some in settled if isinstance(some.outcome, Exception)]
        if not failed:
            return
        with self._lock:
            for some, why in failed:
                self._first = self._first or why
                self._count += len(some.user_records)
                self._unlogged += len(some.user_records)

    def error(self) -> RecordsNotPut | None:
        """The error about the records that were given up since the last call, caused by the first one's error; None if
        there were none.
        """
        with self._lock:
            count, first, self._count, self._first = self._count, self._first, 0, None
        if first is None:
            return None
        error = RecordsNotPut(
            f"{counted(count, 'record was', 'records were')} given up, the first one because: {first} "
            f"({type(first).__name__})"
        )
        error.__cause__ = first
        return error

    def log(self, settled: Sequence[SettledRecords]) -> None:
        """Call this without holding a lock: the program's logging may put its lines with this very producer."""
        why = next((some.outcome for some in settled if isinstance(some.outcome, Exception)), None)
        if why is None:
            return
        with self._lock:
            now = self._clock.steady()
            if self._logged_at is not None and now - self._logged_at < LOGGED_EVERY:
                return
            records, self._unlogged, self._logged_at = self._unlogged, 0, now
        self._log.error("producer gave up records", records=records, problem=type(why).__name__)
