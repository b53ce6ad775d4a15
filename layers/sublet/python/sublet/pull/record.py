"""`sublet.Record`: a record that a program pulls."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from sublet.protocol.records import UserRecord
from sublet.pull.interrupts_and_forks import RECORD_STAYS

if TYPE_CHECKING:  # not loaded by `import sublet`
    from sublet.pull.buffer import Buffer
    from sublet.pull.prefetch import Delivery


class Record(Struct, frozen=True, gc=False, eq=False):
    """A pulled user record. It is out until it is acknowledged, put back or given up.

    `ack`, `nak` and `in_progress` return True if they counted. They do not count if the record is already done, has
    come again meanwhile, or its lease is gone, so that another worker has it or will get it.
    """

    _buffer: Buffer
    _delivery: Delivery

    def __repr__(self) -> str:
        """The text has no data, because it may end up in a log."""
        return f"<Record {self.shard_id} {self.user_record.checkpoint}, attempt {self.attempt}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(RECORD_STAYS)

    @property
    def user_record(self) -> UserRecord:
        """This record as a handler would get it in its batch."""
        return self._delivery.record

    @property
    def data(self) -> bytes:
        """The producer's bytes, taken out of a KPL aggregate."""
        return self._delivery.record.data

    def decoded(self) -> Any:
        """The data's value by the setting `payload_format`, or else as JSON: see UserRecord. Raises PayloadUnreadable,
        and with a registry's format SchemaRegistryError; `nak` or `term` the record then.
        """
        return self._delivery.record.decoded()

    @property
    def partition_key(self) -> str | None:
        """The key that the producer gave. None for a record that was put without one."""
        return self._delivery.record.partition_key

    @property
    def sequence_number(self) -> str:
        """The sequence number of its stream record. User records of one aggregate share it."""
        return self._delivery.record.sequence_number

    @property
    def sub_sequence_number(self) -> int:
        """The record's index in its aggregate, from 0. 0 if it was not aggregated."""
        return self._delivery.record.sub_sequence_number

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        """When Kinesis received the stream record, in UTC."""
        return self._delivery.record.approximate_arrival_timestamp

    @property
    def shard_id(self) -> str:
        """The shard that the record was read from."""
        return self._delivery.queue.shard_id

    @property
    def attempt(self) -> int:
        """How often the record has been handed out, from 1. The number grows each time this process puts the record
        back or lets `ack_wait` pass. It stays the same if the record comes again only because an earlier record of its
        key does.
        """
        return self._delivery.attempt

    def ack(self) -> bool:
        """Acknowledge this record, and no other. Every `checkpoint_interval`, and at the end, the shard is checkpointed
        up to the first record that is not done.
        """
        return self._buffer.ack(self._delivery)

    def nak(self, delay: timedelta | float = 0) -> bool:
        """Put the record back. It comes again after `delay` (seconds, or a timedelta) at the earliest. Later records of
        its key that are out become void, and come again after it.
        """
        return self._buffer.nak(self._delivery, delay)

    def in_progress(self) -> bool:
        """Restart `ack_wait`, because processing takes longer."""
        return self._buffer.in_progress(self._delivery)

    def term(self, reason: str) -> bool:
        """Give the record up: send it to the failure destination. It is then done and never comes again. Also returns
        False if the destination did not take the record, which is then still out. Raises SettingsError without the
        setting `on_failure`, because a record is skipped only if it is kept elsewhere.
        """
        return self._buffer.term(self._delivery, reason)
