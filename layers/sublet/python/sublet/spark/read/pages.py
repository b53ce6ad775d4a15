"""Reads the pages of one shard in order and at its pace. Repeats refused polls, and reopens expired iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from sublet.decisions.session.pace import throttled_until
from sublet.decisions.session.quiet import ARRIVALS_DIFFER_BY, reached_by
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import StreamUnavailable
from sublet.ports import PollRefusal, Refusal, ShardReader
from sublet.protocol.records import Page, StreamRecord
from sublet.spark.plan.offsets import ReadTo
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.positions import is_at_tip

Limit = Callable[[], int]
"""Computes GetRecords' Limit before each poll."""

_key_of = attrgetter("partition_key")


def read_pages(
    connection: StreamAccess,
    shard_id: str,
    position: ReadPosition,
    limit: Limit,
    *,
    first_call_waited: bool = False,
) -> Iterator[Page]:
    """Yields each page from the position on, with empty pages at the tip, until the shard's end. Raises what Stream
    raises, and StreamUnavailable if a poll is refused for longer than `patience`.

    first_call_waited  the driver has already waited for this task's first call
    """
    pages = connection.stream.reader(shard_id, position)
    reader = _Reader(connection, shard_id, pages, limit, first_call_waited)
    while not reader.is_ended:
        yield reader.next_page()  # not kept in a variable, since this may wait for as long as the query runs


@dataclass(slots=True)
class _Reader:
    """Reads a shard. `call_waited`: the driver has already waited for the next call."""

    connection: StreamAccess
    shard_id: str
    pages: ShardReader
    limit: Limit
    call_waited: bool
    is_ended: bool = False

    def next_page(self) -> Page:
        connection = self.connection
        since, refusals = None, 0
        while isinstance(reply := self._poll(), Refusal):
            refusals += 1
            connection.pace.throttled[self.shard_id] += reply is PollRefusal.THROTTLED
            since = since or connection.own_time()
            if connection.own_time() - since > connection.patience:
                raise StreamUnavailable(
                    f"polls of shard {self.shard_id} were refused ({reply.problem}) {refusals} times in "
                    f"{connection.patience}: too many consumers on its 2 MB a second, or Kinesis is failing; a longer "
                    "`patience` waits longer"
                )
            if reply is not PollRefusal.ITERATOR_EXPIRED:
                now = connection.clock.steady()
                connection.sleep(throttled_until(now, refusals) - now)
        connection.pace.count_bytes(self.shard_id, page_bytes(reply))
        self.is_ended = reply.is_shard_end
        return reply

    def _poll(self) -> Page | Refusal:
        pace, memory = self.connection.pace, self.connection.memory
        if self.call_waited:
            pace.count_call(self.shard_id)
        else:
            pace.wait_for_call(self.shard_id)
        self.call_waited = False
        return self._read(self.limit()) if memory is None else memory.poll(self._read, self.limit())

    def _read(self, limit: int) -> Page | Refusal:
        """Renews an iterator that has expired since the last page, as when the consumer took long. That is no refusal:
        only one that has expired at once is.
        """
        reply = self._read_once(limit)
        if reply is PollRefusal.ITERATOR_EXPIRED:
            self.connection.pace.wait_for_call(self.shard_id)
            reply = self._read_once(limit)
        return reply

    def _read_once(self, limit: int) -> Page | Refusal:
        self.pages.open()  # after the wait for memory, in which an iterator might expire
        self.connection.pace.date_last_call(self.shard_id)
        return self.pages.read(limit)


def first_record_at(connection: StreamAccess, shard_id: str, at: ReadTo) -> StreamRecord | None:
    """Returns that record if it still exists, otherwise a later one, or None once it is clear that there is none."""
    position = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, at.sequence_number)
    for page in read_pages(connection, shard_id, position, lambda: 1):
        if page.records:
            return page.records[0]
        reached = reached_by(page)
        is_past = at.arrived is not None and reached is not None and reached > at.arrived + ARRIVALS_DIFFER_BY
        if is_past or is_at_tip(page):
            break
    return None


def page_bytes(page: Page) -> int:
    """How much of the read limit the page uses: data and partition keys."""
    return page.data_bytes + sum(map(len, filter(None, map(_key_of, page.records))))


def mean_bytes(page: Page) -> int | None:
    """The size of the page's records; None if it has none."""
    return max(1, page.data_bytes // len(page.records)) if page.records else None
