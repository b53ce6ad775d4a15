"""A record as whoever pulls gets it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from sublet.consumer.forked import RECORD_STAYS
from sublet.protocol.records import UserRecord

if TYPE_CHECKING:  # what `import sublet` does without
    from sublet.consumer.buffer import Buffer
    from sublet.consumer.turn import Delivery


class Record(Struct, frozen=True, gc=False, eq=False):
    """A user record that is out, until something is said of it.

    Each of `ack`, `nak` and `in_progress` tells whether it counts. It does not if the record is done already, has come again
    meanwhile, or its lease is gone, so that it is, or will be, with somebody else.
    """

    _buffer: Buffer
    _delivery: Delivery

    def __repr__(self) -> str:
        """Without its data: it may well end up in a log."""
        return f"<Record {self.shard_id} {self.user_record.checkpoint}, attempt {self.attempt}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(RECORD_STAYS)

    @property
    def user_record(self) -> UserRecord:
        """The same as a handler's batch has it."""
        return self._delivery.record

    @property
    def data(self) -> bytes:
        """The producer's bytes; KPL aggregates are taken apart."""
        return self._delivery.record.data

    @property
    def partition_key(self) -> str | None:
        """As it was put with; None for a record that was put without one."""
        return self._delivery.record.partition_key

    @property
    def sequence_number(self) -> str:
        """Of its stream record: those of one aggregate share it."""
        return self._delivery.record.sequence_number

    @property
    def sub_sequence_number(self) -> int:
        """Its place in its aggregate, from 0; 0 where it came in none."""
        return self._delivery.record.sub_sequence_number

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        """When Kinesis took its stream record, in UTC."""
        return self._delivery.record.approximate_arrival_timestamp

    @property
    def shard_id(self) -> str:
        """Where it was read."""
        return self._delivery.queue.shard_id

    @property
    def attempt(self) -> int:
        """1, and one more each time that it was put back, or that nothing was said of it in time, as far as this process knows.
        To come again with an earlier record of its key is not counted."""
        return self._delivery.attempt

    def ack(self) -> bool:
        """This record alone is done. Its shard is checkpointed, every `checkpoint_interval` and at the end, as far as there is no
        gap before."""
        return self._buffer.ack(self._delivery)

    def nak(self, delay: timedelta | float = 0) -> bool:
        """It comes again, not before `delay` (seconds, or a timedelta). Records of its key that came later and are out are void,
        and come again after it."""
        return self._buffer.nak(self._delivery, delay)

    def in_progress(self) -> bool:
        """It takes longer: `ack_wait` begins anew."""
        return self._buffer.in_progress(self._delivery)

    def term(self, reason: str) -> bool:
        """It never comes again: it is given to the failure destination, and done when that has taken it. False too if it has not
        taken it; then the record is still out. Raises SettingsError without the setting `on_failure`: nothing is skipped that is
        not kept elsewhere.
        """
        return self._buffer.term(self._delivery, reason)
