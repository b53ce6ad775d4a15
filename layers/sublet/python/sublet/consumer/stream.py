"""A stream in hand: what it is, its consumers, its records one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from sublet.account import Account
from sublet.consumer.consumer import Consumer
from sublet.errors import StreamError
from sublet.protocol.records import NewRecord, UserRecord, why_not_put

if TYPE_CHECKING:  # what `import sublet` does without
    from sublet.consumer.keywords import ConsumerKeywords
    from sublet.protocol.stream_info import PutRecord, StreamInfo


class Stream:
    """One that there is: `sublet.connect().stream("orders")`. Its consumers are applications, with a lease table each.

    What Kinesis has none of: a purge, and deleting a record.
    """

    def __init__(self, account: Account, name: str) -> None:
        """`name`: or its ARN. Nothing is asked."""
        self._account = account
        self.name = name

    def info(self) -> StreamInfo:
        """Asked anew each time. Raises StreamNotFound."""
        return self._account.info(self.name)

    def consumer(self, name: str, **options: Unpack[ConsumerKeywords]) -> Consumer:
        """To pull from, or with a `handler` to run. Nothing is asked before that; the options are those of `sublet.Consumer`."""
        return Consumer(name, self.name, account=self._account, **options)

    def create_consumer(self, name: str, **definition: Unpack[ConsumerKeywords]) -> Consumer:
        """Its tables and its definition. Of one that is there already, the same: or else SettingsInConflict."""
        consumer = self.consumer(name, **definition)
        consumer.create()
        return consumer

    def update_consumer(self, name: str, **definition: Unpack[ConsumerKeywords]) -> Consumer:
        """Raises LeaseTableNotFound if it is not there."""
        consumer = self.consumer(name, **definition)
        consumer.update()
        return consumer

    def create_or_update_consumer(self, name: str, **definition: Unpack[ConsumerKeywords]) -> Consumer:
        consumer = self.consumer(name, **definition)
        consumer.create_or_update()
        return consumer

    def delete_consumer(self, name: str) -> None:
        """Its leases, its positions and its definition."""
        self.consumer(name).delete()

    def consumers(self) -> list[str]:
        """Those that have begun to consume this stream, or were created for it; KCL's own, which keep no sightings, are not
        known. The account's tables are looked through.
        """
        here = self.info().identity
        names = self._account.applications()
        return [name for name in names if (of := self._account.stream_of(name)) and of.is_same_as(here)]

    def get(self, shard_id: str, sequence_number: str) -> list[UserRecord]:
        """The user records of one stream record; none if it is past retention. Raises ShardNotFound, CheckpointNotInStream for a
        number that is not this shard's, and StreamError for what is no number.
        """
        from sublet.consumer.reading import user_records_at

        return user_records_at(self._account, self.name, shard_id, sequence_number)

    def put(
        self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None
    ) -> PutRecord:
        """One record, as it is; where it was put. If a response is lost on the way, it may be there twice.

        Only a stream that distributes records itself takes one without a partition key. Raises StreamError where it does not.
        """
        if (why := why_not_put(data, partition_key, explicit_hash_key, may_be_keyless=True)) is not None:
            raise StreamError(f"{self.name} takes no such record: {why}")
        return self._account.put(self.name, NewRecord(data, partition_key, explicit_hash_key))
