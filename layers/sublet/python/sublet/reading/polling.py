"""Reads a shard by polls: GetShardIterator once, then GetRecords from iterator to iterator.

Every source with the two calls has a reader: Kinesis, the stream in memory, a simulation. The caller decides how often
to poll.
"""

from __future__ import annotations

from typing import Protocol

from sublet.decisions.session.read_position import ReadPosition, after
from sublet.ports import PollRefusal, Refusal, Stream
from sublet.protocol.records import GetRecordsReply, Page


class PollCalls(Protocol):
    """The two calls. They raise what Stream raises."""

    def open(self, shard_id: str, position: ReadPosition) -> str:
        """An iterator at the position. Raises CheckpointNotInStream if the service refuses the sequence number."""

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        """One GetRecords. An empty page is normal, even far behind the tip."""


class PolledStream(Stream, PollCalls, Protocol):
    """A stream whose readers poll it."""


class PollingReader:
    """The ShardReader port. For one thread at a time."""

    def __init__(self, polls: PollCalls, shard_id: str, position: ReadPosition) -> None:
        self._polls = polls
        self._shard_id = shard_id
        self._position = position
        self._iterator: str | None = None
        """None until it is opened."""

    def open(self) -> None:
        self._opened()

    def read(self, limit: int) -> Page | Refusal:
        reply = self._polls.poll(self._opened(), limit)
        if isinstance(reply, Refusal):
            if reply is PollRefusal.ITERATOR_EXPIRED:
                self._iterator = None
            return reply
        self._iterator = reply.next_iterator
        if reply.page.records:
            self._position = after(reply.page.records[-1].sequence_number)
        return reply.page

    def _opened(self) -> str:
        if self._iterator is None:
            self._iterator = self._polls.open(self._shard_id, self._position)
        return self._iterator
