"""A record as whoever pulls on an event loop gets it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from sublet.consumer.record import Record as PlainRecord
from sublet.protocol.records import UserRecord


class Record:
    """As `sublet.Record`. What it is told, but for `term`, takes no time: the checkpoint follows by itself."""

    __slots__ = ("plain",)

    def __init__(self, plain: PlainRecord) -> None:
        self.plain = plain

    def __repr__(self) -> str:
        return repr(self.plain)

    @property
    def user_record(self) -> UserRecord:
        return self.plain.user_record

    @property
    def data(self) -> bytes:
        return self.plain.user_record.data

    @property
    def partition_key(self) -> str:
        return self.plain.user_record.partition_key

    @property
    def sequence_number(self) -> str:
        return self.plain.user_record.sequence_number

    @property
    def sub_sequence_number(self) -> int:
        return self.plain.user_record.sub_sequence_number

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        return self.plain.user_record.approximate_arrival_timestamp

    @property
    def shard_id(self) -> str:
        return self.plain.shard_id

    @property
    def attempt(self) -> int:
        return self.plain.attempt

    async def ack(self) -> bool:
        """See sublet.Record.ack."""
        return self.plain.ack()

    async def nak(self, delay: timedelta | float = 0) -> bool:
        """See sublet.Record.nak."""
        return self.plain.nak(delay)

    async def in_progress(self) -> bool:
        """See sublet.Record.in_progress."""
        return self.plain.in_progress()

    async def term(self, reason: str) -> bool:
        """See sublet.Record.term. It waits for the destination, in a thread."""
        return await asyncio.to_thread(self.plain.term, reason)
