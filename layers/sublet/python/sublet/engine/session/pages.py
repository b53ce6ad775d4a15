"""Reads the pages of one shard in order, at the pace that Kinesis allows, and fetches the next while the last is
handled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from sublet.decisions.session.pace import Pace, asked_for_at, next_poll_at, records_to_ask_for, throttled_until
from sublet.decisions.session.process_health import Outage
from sublet.decisions.session.read_position import ReadPosition
from sublet.engine.lease.held import instant
from sublet.engine.process_shared import NO_PAGE, Budget, PageSize, QuietShards
from sublet.engine.session.unanswered_reads import ReadAnswers
from sublet.errors import CallFailed
from sublet.metric_names import Metric
from sublet.ports import PollRefusal, Ports, PushReader, Refusal, ShardReader, Signal, Task
from sublet.protocol.records import Page
from sublet.settings import Settings

POLL_REPLY_MAX = 10 * 2**20
"""Kinesis: a GetRecords reply holds at most 10 MB. This much is reserved before each poll."""

_FULL = timedelta(milliseconds=20)
"""The pause between two looks at a budget that is used up."""


class PageFeed:
    """Reads ahead by one page. The consumer calls `next`, then `read_ahead` if it will want another page and has work
    until then, and `handled` when it is done with the page.
    """

    def __init__(
        self,
        shard_id: str,
        position: ReadPosition,
        ports: Ports,
        settings: Settings,
        budget: Budget,
        quiet: QuietShards,
        stop: Signal,
        deadline: datetime,
    ):
        self._push = _push_reader(ports, shard_id, position)
        self._reader: ShardReader = self._push or ports.stream.reader(shard_id, position)
        self._shard_id = shard_id
        self._metrics, self._log = ports.metrics, ports.log
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
        self._answers = ReadAnswers(shard_id, ports)
        self._ahead: Task[Page | None] | None = None
        self._in_hand = NO_PAGE
        self._fetched = NO_PAGE
        self._fetched_at = self.polled_at = ports.clock.now()
        """`polled_at`: when the poll was made that returned the current page; of a push, no later than when it was
        sent.
        """
        self._forget = stop.on_set(self._push.interrupt) if self._push else None

    @property
    def throttled(self) -> int:
        """Polls refused in a row, up to now."""
        return self._pace.refusals

    @property
    def unanswered(self) -> Outage | None:
        """Why no read is answered, and since when; None if reads are answered."""
        return self._answers.outage

    def next(self) -> Page | None:
        """The next page, or None if it was stopped or the deadline came first. Raises what Stream raises."""
        self.handled()
        ahead, self._ahead = self._ahead, None
        page = ahead.result() if ahead is not None else self._fetch()
        self._in_hand, self._fetched = self._fetched, NO_PAGE
        self.polled_at = self._fetched_at
        return page

    def read_ahead(self) -> None:
        """Start fetching the page after the current one."""
        self._ahead = self._tasks.spawn(self._fetch)

    def handled(self) -> None:
        """Return the current page's memory to the budget."""
        self._budget.free(self._in_hand)
        self._in_hand = NO_PAGE

    def close(self) -> None:
        """Wait for a fetch that is running (the stop signal ends its wait) and return all memory to the budget."""
        ahead, self._ahead = self._ahead, None
        if self._push is not None:
            self._push.interrupt()
        if ahead is not None:
            with suppress(CallFailed):  # that page is not handled; the next window meets the same error
                ahead.result()
        if self._push is not None:
            self._push.close()
        if self._forget is not None:
            self._forget()
        self._budget.free(self._fetched)
        self._fetched = NO_PAGE
        self.handled()

    def _fetch(self) -> Page | None:
        while self._awaits_page():
            reserved = PageSize(POLL_REPLY_MAX, records_to_ask_for(self._pace, self._settings))
            if not self._wait_until(lambda: self._budget.take(reserved), lambda: _FULL):  # noqa: B023 - waits for it right here
                return None
            page = self._poll(reserved)
            if page is not None:
                return page
        return None

    def _awaits_page(self) -> bool:
        """Wait until a poll is due, or until something has been pushed. False: stopped, or at the deadline."""
        if self._push is None or self._push.is_polling:
            return self._wait_until(
                lambda: self._clock.steady() >= self._due_at, lambda: self._due_at - self._clock.steady()
            )
        while not self._stop.is_set() and (left := self._deadline - self._clock.steady()) > timedelta(0):
            if self._push.wait(left):
                return True
        return False

    @property
    def _due_at(self) -> datetime:
        return asked_for_at(self._pace, self._poll_at, self._began_at, self._quiet.asked_at)

    def _poll(self, reserved: PageSize) -> Page | None:
        """One poll. None: refused, and `_poll_at` says when to try again."""
        kept = NO_PAGE
        try:
            self._reader.open()
            polled_at = instant(self._clock)
            self._began_at = polled_at.steady
            self._poll_at = polled_at.steady + self._settings.poll_interval  # whatever this poll returns
            reply = self._reader.read(reserved.records)
            self._answers.got(reply)
            if isinstance(reply, Refusal):
                self._refused(reply)
                return None
            kept = self._fetched = PageSize(reply.data_bytes, len(reply.records))
            sent_at = self._push.as_of if self._push is not None else None
            self._fetched_at = sent_at or polled_at.wall
        finally:
            self._budget.free(PageSize(reserved.bytes - kept.bytes, reserved.records - kept.records))
        self._pace = self._pace.polled(reply, polled_at.steady, self._settings)
        self._poll_at = next_poll_at(self._pace, polled_at.steady, self._chance, self._settings)
        return reply

    def _refused(self, refusal: Refusal) -> None:
        if refusal is PollRefusal.NOT_PUSHED:
            self._metrics.put(Metric.FAN_OUT_POLLED_INSTEAD, 1, shard_id=self._shard_id)
            self._log.warning(
                "the fan-out consumer is not registered: this shard is polled instead",
                shard_id=self._shard_id,
                consumer=self._settings.fan_out_consumer,
            )
        elif refusal not in (PollRefusal.ITERATOR_EXPIRED, PollRefusal.NOT_YET):
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


def _push_reader(ports: Ports, shard_id: str, position: ReadPosition) -> PushReader | None:
    if ports.pushes is None:
        return None
    from sublet.reading.pushing import FanOutReader  # noqa: PLC0415 - would add to every start
    from sublet.reading.several_streams import ports_of_stream  # noqa: PLC0415 - would add to every start

    stream = ports_of_stream(ports, shard_id).stream
    return FanOutReader(ports.pushes, stream, shard_id, position, ports.clock, ports.tasks, ports.chance)
