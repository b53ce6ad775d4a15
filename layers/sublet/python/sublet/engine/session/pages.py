"""Reads the pages of one shard in order, at the pace that Kinesis allows, and fetches the next while the last is handled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.pace import Pace, asked_for_at, next_poll_at, records_to_ask_for, throttled_until
from sublet.decisions.quiet import ARRIVALS_DIFFER_BY, reached_by
from sublet.decisions.read_position import (
    NOTHING_READ,
    IteratorType,
    Kept,
    ReadPosition,
    after_page,
    may_have_lost,
    shows_what_follows,
)
from sublet.engine.lease.held import instant
from sublet.engine.process_shared import NO_PAGE, Budget, PageSize, QuietShards
from sublet.errors import StreamError
from sublet.metric_names import Metric
from sublet.ports import PollRefusal, Ports, PushReader, ShardReader, Signal, Task
from sublet.protocol.lease import Lease
from sublet.protocol.records import Page, StreamRecord
from sublet.settings import Settings

POLL_REPLY_MAX = 10 * 2**20
"""Kinesis: a GetRecords reply holds at most 10 MB. This much is reserved before each poll."""

_FULL = timedelta(milliseconds=20)
"""The pause between two looks at a budget that is used up."""


class PageFeed:
    """Reads ahead by one page. The consumer calls `next`, then `read_ahead` if it will want another page and has work until then,
    and `handled` when it is done with the page.
    """

    def __init__(
        self, shard_id: str, position: ReadPosition, ports: Ports, settings: Settings, budget: Budget, quiet: QuietShards,
        stop: Signal, deadline: datetime,
    ):  # fmt: skip
        self._push = _push_reader(ports, shard_id, position)
        self._reader: ShardReader = self._push or ports.stream.reader(shard_id, position)
        self._shard_id = shard_id
        self._ports = ports
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
        self._in_hand = NO_PAGE
        self._fetched = NO_PAGE
        self._fetched_at = self.polled_at = ports.clock.now()
        """`polled_at`: when the poll was made that returned the current page; of a push, no later than when it was sent."""
        self._forget = stop.on_set(self._push.interrupt) if self._push else None

    @property
    def throttled(self) -> int:
        """Polls refused in a row, up to now."""
        return self._pace.refusals

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
        self._budget.give_back(self._in_hand)
        self._in_hand = NO_PAGE

    def close(self) -> None:
        """Wait for a fetch that is running (the stop signal ends its wait) and return all memory to the budget."""
        ahead, self._ahead = self._ahead, None
        if self._push is not None:
            self._push.interrupt()
        if ahead is not None:
            with suppress(StreamError):  # that page is not handled; the next window meets the same error
                ahead.result()
        if self._push is not None:
            self._push.close()
        if self._forget is not None:
            self._forget()
        self._budget.give_back(self._fetched)
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
            if isinstance(reply, PollRefusal):
                self._refused(reply)
                return None
            kept = self._fetched = PageSize(reply.data_bytes, len(reply.records))
            sent_at = self._push.as_of if self._push is not None else None
            self._fetched_at = sent_at or polled_at.wall
        finally:
            self._budget.give_back(PageSize(reserved.bytes - kept.bytes, reserved.records - kept.records))
        self._pace = self._pace.polled(reply, polled_at.steady, self._settings)
        self._poll_at = next_poll_at(self._pace, polled_at.steady, self._chance, self._settings)
        return reply

    def _refused(self, refusal: PollRefusal) -> None:
        if refusal is PollRefusal.NOT_PUSHED:
            self._ports.metrics.put(Metric.FAN_OUT_POLLED_INSTEAD, 1, shard_id=self._shard_id)
            self._ports.log.warning(
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
    from sublet.pushing import FanOutReader  # noqa: PLC0415 - would add to every start
    from sublet.several_streams import ports_of_stream  # noqa: PLC0415 - would add to every start

    stream = ports_of_stream(ports, shard_id).stream
    return FanOutReader(ports.pushes, stream, shard_id, position, ports.clock, ports.tasks, ports.chance)


ATTEMPTS = 5
BETWEEN_ATTEMPTS = timedelta(seconds=1)


@dataclass(slots=True)
class GapWatch:
    """Notices if records were trimmed before they were read. One for each time that a shard is opened. `opened`: the lease
    then.
    """

    ports: Ports
    opened: Lease
    stop: Signal
    kept: Kept = NOTHING_READ
    is_begun: bool = False

    def look_at(self, page: Page, polled_at: datetime, now: datetime) -> None:
        """Call this before the page's records are handled: once they are checkpointed, a gap no longer shows."""
        if not shows_what_follows(page):
            return
        first = page.records[0] if page.records else None
        if not self.is_begun:
            self.is_begun = True
            if may_have_lost(self.opened, first, now) and not self._begins_whole():
                self._report_gap("the checkpointed record", str(self.opened.checkpoint), first)
        elif (last := self.kept.in_doubt(polled_at)) is not None:
            is_there = self._is_whole(last, self.kept.unread_since)
            if is_there is None:
                return  # the next page asks again
            if not is_there:
                self._report_gap("the record that was read last", last, first)
            else:
                self.kept = self.kept.with_proof(polled_at)
        self.kept = after_page(self.kept, page, polled_at)

    def _begins_whole(self) -> bool:
        """Whether nothing was lost at the beginning. A shard opened at a moment does not return the checkpointed record, so this
        asks for it. If the service does not answer, a gap is reported, because there may be no later page.
        """
        until = self.opened.quiet_until
        return until is not None and bool(self._is_whole(self.opened.checkpoint.sequence_number, until))

    def _is_whole(self, sequence_number: str, until: datetime | None) -> bool | None:
        """Whether nothing after this record is lost: the record is still there, or everything since `until` is, and nothing
        arrived between the two. None if the service did not answer.
        """
        at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
        reader = self.ports.stream.reader(self.opened.shard_id, at)
        for attempt in range(ATTEMPTS):
            if attempt and self.stop.wait(BETWEEN_ATTEMPTS):
                break
            with suppress(StreamError):
                answer = reader.read(1)
                if isinstance(answer, PollRefusal):
                    continue
                if shows_what_follows(answer):
                    return any(record.sequence_number == sequence_number for record in answer.records)
                is_kept = _is_kept_since(until, answer)
                if is_kept is not None:
                    return is_kept
        return None

    def _report_gap(self, what: str, before: str, first: StreamRecord | None) -> None:
        read_on = {} if first is None else {"first_arrival": first.approximate_arrival_timestamp.isoformat()}
        self.ports.metrics.put(Metric.DATA_GAP, 1)
        self.ports.log.error(
            f"data gap: {what} is past retention, and so may be records after it; going on from the horizon",  # noqa: G004 -- one of two
            shard_id=self.opened.shard_id, checkpoint=before,
            first_sequence_number=first and first.sequence_number, **read_on,
        )  # fmt: skip


def _is_kept_since(until: datetime | None, page: Page) -> bool | None:
    """Whether everything since `until` is still kept, judged by an empty page behind the tip. None if the page does not show it.

    The page was read from a record older than `until`, or from the horizon if that record is gone. A walk only passes what is
    kept, and begins no later than the time that its page has reached.
    """
    reached = reached_by(page)
    if until is None or reached is None:
        return None
    if reached <= until:
        return True
    return False if reached > until + ARRIVALS_DIFFER_BY else None
