"""`sublet.aio.Record`: a record that a program pulls on an event loop."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NoReturn

from msgspec import Struct

from sublet.aio.event_loop import in_thread
from sublet.protocol.records import UserRecord
from sublet.pull.buffer import Buffer
from sublet.pull.interrupts_and_forks import RECORD_STAYS
from sublet.pull.prefetch import Delivery
from sublet.pull.record import Record as PlainRecord


class Record(Struct, frozen=True, gc=False, eq=False):
    """Does what `sublet.Record` does. Only `term` calls AWS. The others return at once, and the checkpoint is written
    later.
    """

    _buffer: Buffer
    _delivery: Delivery

    def __repr__(self) -> str:
        return repr(self.plain)

    def __reduce__(self) -> NoReturn:
        raise TypeError(RECORD_STAYS)

    @property
    def plain(self) -> PlainRecord:
        return PlainRecord(self._buffer, self._delivery)

    @property
    def user_record(self) -> UserRecord:
        return self._delivery.record

    @property
    def data(self) -> bytes:
        return self._delivery.record.data

    @property
    def partition_key(self) -> str | None:
        return self._delivery.record.partition_key

    @property
    def sequence_number(self) -> str:
        return self._delivery.record.sequence_number

    @property
    def sub_sequence_number(self) -> int:
        return self._delivery.record.sub_sequence_number

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        return self._delivery.record.approximate_arrival_timestamp

    @property
    def shard_id(self) -> str:
        return self._delivery.queue.shard_id

    @property
    def attempt(self) -> int:
        return self._delivery.attempt

    def decoded(self) -> Any:
        """See `sublet.Record.decoded`. A registry is asked once for each schema, in the event loop's thread."""
        return self.user_record.decoded()

    async def ack(self) -> bool:
        """See sublet.Record.ack."""
        return self._buffer.ack(self._delivery)

    async def nak(self, delay: timedelta | float = 0) -> bool:
        """See sublet.Record.nak."""
        return self._buffer.nak(self._delivery, delay)

    async def in_progress(self) -> bool:
        """See sublet.Record.in_progress."""
        return self._buffer.in_progress(self._delivery)

    async def term(self, reason: str) -> bool:
        """See sublet.Record.term. A thread waits for the destination."""
        return await in_thread(self.plain.term, reason)
