"""Follows all shards of a stream from a moment on, through its reshards, without a lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import StreamUnavailable
from sublet.ports import Ports, Refusal, ShardReader
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.records import Page, UserRecord

ROUND = timedelta(seconds=1)
"""How long a round takes at least. Each shard is read once in it, because its readers share five polls a second."""

AT_ONCE = 16
LIMIT = 1_000
REFUSALS_MAX = 20


class TailedRecord(NamedTuple):
    shard_id: str
    record: UserRecord


@dataclass(slots=True)
class Tail:
    """`run` it once.

    shard_ids  only these and their descendants; None: all
    since      None: from each shard's beginning
    """

    ports: Ports
    since: datetime | None
    shard_ids: frozenset[str] | None = None
    _readers: dict[str, ShardReader] = field(default_factory=dict, init=False)
    _waiting: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    """Children that begin once none of these parents is being read, because a child's records come after theirs."""
    _refused: dict[str, int] = field(default_factory=dict, init=False)

    def records(self) -> Iterator[TailedRecord]:
        """User records, in order within a shard. Ends when every shard has ended. Raises what Stream raises."""
        self._begin()
        pause = self.ports.tasks.signal()
        while self._readers:
            began = self.ports.clock.steady()
            for shard_id, page in self._read_all().items():
                yield from (TailedRecord(shard_id, record) for record in self._taken(shard_id, page))
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
                self._readers[shard.shard_id] = stream.reader(shard.shard_id, self._start)

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

        asked = {shard_id: self.ports.tasks.spawn(partial(read, reader)) for shard_id, reader in self._readers.items()}
        return {shard_id: task.result() for shard_id, task in asked.items()}

    def _taken(self, shard_id: str, page: Page | Refusal) -> tuple[UserRecord, ...]:
        if isinstance(page, Refusal):
            self._refused[shard_id] = self._refused.get(shard_id, 0) + 1
            if self._refused[shard_id] == REFUSALS_MAX:
                raise StreamUnavailable(
                    f"shard {shard_id} could not be read {REFUSALS_MAX} times in a row: {page.problem}"
                )
            return ()
        self._refused.pop(shard_id, None)
        if page.is_shard_end:
            self._end(shard_id, page)
        return tuple(deaggregate(page.records, None).user_records)

    def _end(self, shard_id: str, page: Page) -> None:
        """Lets the shard's children begin, once none of their parents is being read."""
        del self._readers[shard_id]
        for child in page.child_shards:
            if child.shard_id not in self._readers:
                self._waiting.setdefault(child.shard_id, child.parent_shard_ids)
        going_on = set(self._readers) | set(self._waiting)
        for child_id, parents in list(self._waiting.items()):
            if not parents & going_on:
                del self._waiting[child_id]
                self._readers[child_id] = self.ports.stream.reader(child_id, self._start)
