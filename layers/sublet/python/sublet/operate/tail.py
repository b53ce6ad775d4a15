"""Follows all shards of a stream from a moment on, through its reshards, without a lease, in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.session.quiet import reached_by
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import StreamUnavailable
from sublet.operate.rules.arrival_order import ArrivalOrder, TailedRecord
from sublet.ports import Ports, Refusal, ShardReader
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.records import Page, StreamRecord

ROUND = timedelta(seconds=1)
"""How long a round takes at least. Each shard is read once in it, because its readers share five polls a second."""

AT_ONCE = 16
LIMIT = 1_000
REFUSALS_MAX = 20


@dataclass(slots=True)
class Tail:
    """`run` it once.

    shard_ids  only these and their descendants; None: all
    since      None: from each shard's beginning
    until      leave out records that arrived then or later, and end once each shard has been read to there, or to its
               tip; None: go on
    """

    ports: Ports
    since: datetime | None
    shard_ids: frozenset[str] | None = None
    until: datetime | None = None
    _order: ArrivalOrder = field(default_factory=ArrivalOrder, init=False)
    _readers: dict[str, ShardReader] = field(default_factory=dict, init=False)
    _waiting: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    """Children that begin once none of these parents is being read, because a child's records come after theirs."""
    _refused: dict[str, int] = field(default_factory=dict, init=False)

    def records(self) -> Iterator[TailedRecord]:
        """User records in the order of their arrival, as far as it shows: those of a shard in their order, and a
        child's after its parents'. Ends when every shard has ended. Raises what Stream raises.
        """
        self._begin()
        pause = self.ports.tasks.signal()
        while self._readers:
            began = self.ports.clock.steady()
            for shard_id, page in self._read_all().items():
                self._take(shard_id, page)
            yield from self._order.released()
            if self._readers:
                pause.wait(max(ROUND - (self.ports.clock.steady() - began), timedelta(0)))

    def _begin(self) -> None:
        """Begins with closed shards too, which may hold records from after `since`; their children wait for them."""
        stream = self.ports.stream
        listed = {shard.shard_id: shard for shard in stream.list_shards()}
        if self.shard_ids is not None:
            for shard_id in sorted(self.shard_ids - set(listed)):
                stream.reader(shard_id, self._start).open()  # raises ShardNotFound with its own words
        wanted = [shard for shard in listed.values() if self.shard_ids is None or shard.shard_id in self.shard_ids]
        chosen = {shard.shard_id for shard in wanted}
        for shard in wanted:
            unread = shard.parent_shard_ids & chosen
            if unread:
                self._waiting[shard.shard_id] = unread
            else:
                self._read(shard.shard_id)

    def _read(self, shard_id: str, parent_shard_ids: frozenset[str] = frozenset()) -> None:
        self._readers[shard_id] = self.ports.stream.reader(shard_id, self._start)
        self._order.begin(shard_id, parent_shard_ids)

    @property
    def _start(self) -> ReadPosition:
        if self.since is None:
            return ReadPosition(IteratorType.TRIM_HORIZON)
        return ReadPosition(IteratorType.AT_TIMESTAMP, at=self.since)

    def _read_all(self) -> Mapping[str, Page | Refusal]:
        slots = self.ports.tasks.slots(AT_ONCE)

        def read(reader: ShardReader) -> Page | Refusal:
            with slots:
                return reader.read(LIMIT)

        asked = {
            shard_id: self.ports.tasks.spawn(partial(read, reader))
            for shard_id, reader in self._readers.items()
            if self._order.held_of(shard_id) < LIMIT
        }
        return {shard_id: task.result() for shard_id, task in asked.items()}

    def _take(self, shard_id: str, page: Page | Refusal) -> None:
        if isinstance(page, Refusal):
            self._refused[shard_id] = self._refused.get(shard_id, 0) + 1
            if self._refused[shard_id] == REFUSALS_MAX:
                raise StreamUnavailable(
                    f"shard {shard_id} could not be read {REFUSALS_MAX} times in a row: {page.problem}"
                )
            self._order.unanswered(shard_id)
            return
        self._refused.pop(shard_id, None)
        is_at_tip = not page.millis_behind_latest
        records = (each for each in page.records if self.until is None or self._arrived(each) < self.until)
        found = deaggregate(tuple(records), None).user_records
        self._order.add(shard_id, found, reached_by(page), is_at_tip=is_at_tip)
        if page.is_shard_end:
            self._end(shard_id, page)
        elif self.until is not None and (is_at_tip or self._has_reached(self.until, page)):
            del self._readers[shard_id]
            self._order.end(shard_id)

    @staticmethod
    def _arrived(record: StreamRecord) -> datetime:
        return record.approximate_arrival_timestamp

    def _has_reached(self, moment: datetime, page: Page) -> bool:
        reached = self._arrived(page.records[-1]) if page.records else reached_by(page)
        return reached is not None and reached >= moment

    def _end(self, shard_id: str, page: Page) -> None:
        """Lets the shard's children begin, once none of their parents is being read."""
        del self._readers[shard_id]
        self._order.end(shard_id)
        for child in page.child_shards:
            if child.shard_id not in self._readers:
                self._waiting.setdefault(child.shard_id, child.parent_shard_ids)
        going_on = set(self._readers) | set(self._waiting)
        for child_id, parents in list(self._waiting.items()):
            if not parents & going_on:
                del self._waiting[child_id]
                self._read(child_id, parents)
