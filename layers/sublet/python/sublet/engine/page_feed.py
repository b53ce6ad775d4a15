"""Pages of one shard, in order, at the pace that Kinesis allows, with the next one fetched while the last is handled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.pace import Pace, asked_for_at, next_poll_at, records_to_ask_for, throttled_until
from sublet.decisions.read_position import ReadPosition
from sublet.engine.held_lease import instant
from sublet.engine.quiet_shards import QuietShards
from sublet.errors import StreamError
from sublet.ports import PollRefusal, Ports, Signal, Task, Tasks
from sublet.protocol.records import Page
from sublet.settings import Settings

POLL_REPLY_MAX = 10 * 2**20
"""Kinesis: a GetRecords reply holds at most 10 MB. What a poll may bring is reserved before it is made."""

_FULL = timedelta(milliseconds=20)
"""Between two looks at a full budget."""


class Budget:
    """What a lease worker may hold fetched and not yet handled, over all its leases."""

    def __init__(self, max_bytes: int, max_records: int, tasks: Tasks):
        self._bytes = max_bytes
        self._records = max_records
        self._lock = tasks.lock()

    def take(self, size: Size) -> bool:
        with self._lock:
            if size.bytes > self._bytes or size.records > self._records:
                return False
            self._bytes -= size.bytes
            self._records -= size.records
            return True

    def give_back(self, size: Size) -> None:
        with self._lock:
            self._bytes += size.bytes
            self._records += size.records


@dataclass(frozen=True, slots=True)
class Size:
    bytes: int
    records: int


NOTHING = Size(0, 0)


class PageFeed:
    """Reads ahead by one page. The consumer calls `next`, then `read_ahead` if it will want another and has work until then,
    and `handled` in the end."""

    def __init__(
        self, shard_id: str, position: ReadPosition, ports: Ports, settings: Settings, budget: Budget, quiet: QuietShards,
        stop: Signal, deadline: datetime,
    ):  # fmt: skip
        self._reader = ports.stream.reader(shard_id, position)
        self._settings = settings
        self._clock = ports.clock
        self._chance = ports.chance
        self._tasks = ports.tasks
        self._budget = budget
        self._quiet = quiet
        self._stop = stop
        self._deadline = deadline
        self._poll_at = self._began_at = ports.clock.steady()
        """When the next poll is due, and when the last one began."""
        self._pace = Pace()
        self._ahead: Task[Page | None] | None = None
        self._in_hand = NOTHING
        self._fetched = NOTHING
        self._fetched_at = self.polled_at = ports.clock.now()
        """`polled_at`: the moment of the poll that brought the page in hand."""

    @property
    def throttled(self) -> int:
        """Polls refused in a row, up to now."""
        return self._pace.refusals

    def next(self) -> Page | None:
        """The next page, or None if it was stopped or the deadline came first. Raises what Stream raises."""
        self.handled()
        ahead, self._ahead = self._ahead, None
        page = ahead.result() if ahead is not None else self._fetch()
        self._in_hand, self._fetched = self._fetched, NOTHING
        self.polled_at = self._fetched_at
        return page

    def read_ahead(self) -> None:
        """Start fetching the page after the one in hand."""
        self._ahead = self._tasks.spawn(self._fetch)

    def handled(self) -> None:
        """The page in hand needs no memory any more."""
        self._budget.give_back(self._in_hand)
        self._in_hand = NOTHING

    def close(self) -> None:
        """Wait for a fetch under way (the stop signal cuts its waiting short) and give all memory back."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            with suppress(StreamError):  # nobody will handle that page; the next window meets the same error
                ahead.result()
        self._budget.give_back(self._fetched)
        self._fetched = NOTHING
        self.handled()

    def _fetch(self) -> Page | None:
        while self._wait_until(
            lambda: self._clock.steady() >= self._due_at, lambda: self._due_at - self._clock.steady()
        ):
            reserved = Size(POLL_REPLY_MAX, records_to_ask_for(self._pace, self._settings))
            if not self._wait_until(lambda: self._budget.take(reserved), lambda: _FULL):  # noqa: B023 - waits for it right here
                return None
            page = self._poll(reserved)
            if page is not None:
                return page
        return None

    @property
    def _due_at(self) -> datetime:
        return asked_for_at(self._pace, self._poll_at, self._began_at, self._quiet.asked_at)

    def _poll(self, reserved: Size) -> Page | None:
        """One poll. None: refused, and `_poll_at` says when to try again."""
        kept = NOTHING
        try:
            self._reader.open()
            polled_at = instant(self._clock)
            self._began_at = polled_at.steady
            self._poll_at = polled_at.steady + self._settings.poll_interval  # whatever becomes of this one
            reply = self._reader.read(reserved.records)
            if isinstance(reply, PollRefusal):
                self._refused(reply)
                return None
            kept = self._fetched = Size(reply.data_bytes, len(reply.records))
            self._fetched_at = polled_at.wall
        finally:
            self._budget.give_back(Size(reserved.bytes - kept.bytes, reserved.records - kept.records))
        self._pace = self._pace.polled(reply, polled_at.steady, self._settings)
        self._poll_at = next_poll_at(self._pace, polled_at.steady, self._chance, self._settings)
        return reply

    def _refused(self, refusal: PollRefusal) -> None:
        if refusal is not PollRefusal.ITERATOR_EXPIRED:
            self._pace = self._pace.throttled(self._settings)
            self._poll_at = throttled_until(self._clock.steady(), self._pace.refusals)

    def _wait_until(self, ready: Callable[[], bool], pause: Callable[[], timedelta]) -> bool:
        """Wait until it is ready, unless stopped or at the deadline."""
        while not self._stop.is_set() and self._clock.steady() < self._deadline:
            seen = self._quiet.asked_at
            if ready():
                return True
            self._quiet.wait(min(pause(), self._deadline - self._clock.steady()), self._stop, seen)
        return False
