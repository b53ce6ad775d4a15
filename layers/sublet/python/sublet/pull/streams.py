"""`sublet.connect()`: an account's streams, their consumers, and single records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from sublet.errors import SettingsError, StreamError, StreamNotFound, StreamUnavailable
from sublet.ports.account import Account
from sublet.protocol.records import NewRecord, UserRecord, why_not_put
from sublet.protocol.stream_info import ACTIVE, StreamInfo, StreamMode
from sublet.pull.consumer import Consumer
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:  # not loaded by `import sublet`
    from boto3.session import Session

    from sublet.decisions.streams.stream_changes import DesiredStream, StreamOptions
    from sublet.protocol.stream_info import AccountInfo, PutRecord
    from sublet.pull.arguments import ConsumerKeywords

CHANGE_POLLED_EVERY = timedelta(seconds=1)
CHANGE_TAKES_AT_MOST = timedelta(minutes=30)
"""Most changes take Kinesis half a minute; those that create many shards take longer."""

GET_READS = 20
"""How often to read, because Kinesis may answer with an empty page although the record is there."""

GET_RETRIED_AFTER = timedelta(milliseconds=500)
USER_RECORDS_AT_ONCE = 4096


class Context:
    """The streams and consumers of one account and region: on AWS `sublet.connect()`, in memory
    `Context(MemoryAccount())`.

    Methods that change a stream return when Kinesis has finished the change, and the stream can be used.
    """

    def __init__(self, account: Account) -> None:
        self.account = account

    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        return list(self.account.streams())

    def stream(self, stream: str) -> Stream:
        """Find a stream by name or ARN. Raises StreamNotFound."""
        self.account.info(stream)
        return Stream(self.account, stream)

    def create_stream(self, stream: str, **options: Unpack[StreamOptions]) -> Stream:
        """Create a stream, on demand unless `shards` or `mode` is given. Raises StreamExists."""
        from sublet.decisions.streams.stream_changes import DesiredStream

        _create(self.account, stream, DesiredStream(**options))
        return Stream(self.account, stream)

    def update_stream(self, stream: str, **options: Unpack[StreamOptions]) -> Stream:
        """Change a stream; options that are left out stay as they are. More than doubling or halving its shards takes
        several steps.
        """
        from sublet.decisions.streams.stream_changes import DesiredStream

        _update(self.account, stream, DesiredStream(**options))
        return Stream(self.account, stream)

    def delete_stream(self, stream: str) -> None:
        """Delete the stream and all its records. Its consumers' tables stay: a new stream of this name is not mistaken
        for it.
        """
        self.account.delete(stream)
        try:
            _wait_until(self.account, stream, lambda _: False)
        except StreamNotFound:
            return

    def account_info(self) -> AccountInfo:
        """The account's Kinesis limits, and how much of them is used."""
        return self.account.limits()

    def consumer(self, stream: str, name: str, **options: Unpack[ConsumerKeywords]) -> Consumer:
        """A consumer of the stream, without a check that the stream exists. The options are those of
        `sublet.Consumer`.
        """
        return Consumer(name, stream, account=self.account, **options)


def connect(session: Session | None = None, region: str | None = None, endpoint: str | None = None) -> Context:
    """Connect to AWS, with this machine's configuration where no argument is given. Makes no call yet.

    session   boto3's; its credentials and region are used
    endpoint  a URL for Kinesis and DynamoDB, such as an emulator's
    """
    from sublet.aws.account import AwsAccount
    from sublet.aws.clients import Connection

    return Context(AwsAccount(Connection(region, endpoint, session)))


class Stream:
    """An existing stream: `sublet.connect().stream("orders")`. Its consumers are applications, each with a lease table.

    Kinesis cannot purge a stream or delete a record, so neither can this.
    """

    def __init__(self, account: Account, name: str) -> None:
        """`name`: the stream's name or ARN. Makes no call."""
        self._account = account
        self.name = name

    def info(self) -> StreamInfo:
        """Describe the stream. Each call asks Kinesis. Raises StreamNotFound."""
        return self._account.info(self.name)

    def consumer(self, name: str, **options: Unpack[ConsumerKeywords]) -> Consumer:
        """A consumer to pull from, or with a `handler` to run. Makes no call yet. The options are those of
        `sublet.Consumer`.
        """
        return Consumer(name, self.name, account=self._account, **options)

    def create_consumer(self, name: str, **definition: Unpack[ConsumerKeywords]) -> Consumer:
        """Create a consumer's tables and definition. Raises SettingsInConflict if it exists with another definition."""
        consumer = self.consumer(name, **definition)
        consumer.create()
        return consumer

    def update_consumer(self, name: str, **definition: Unpack[ConsumerKeywords]) -> Consumer:
        """Replace a consumer's definition. Raises LeaseTableNotFound if the consumer does not exist."""
        consumer = self.consumer(name, **definition)
        consumer.update()
        return consumer

    def create_or_update_consumer(self, name: str, **definition: Unpack[ConsumerKeywords]) -> Consumer:
        consumer = self.consumer(name, **definition)
        consumer.create_or_update()
        return consumer

    def delete_consumer(self, name: str) -> None:
        """Delete the consumer's leases, positions and definition."""
        self.consumer(name).delete()

    def consumers(self) -> list[str]:
        """The names of the applications that have consumed this stream or were created for it. Applications of the Java
        KCL alone are not found, since they have no sightings table. Lists the account's tables.
        """
        here = self.info().identity
        names = self._account.applications()
        return [name for name in names if (of := self._account.stream_of(name)) and of.is_same_as(here)]

    def get(self, shard_id: str, sequence_number: str) -> list[UserRecord]:
        """Returns the user records of one stream record, or none if it is past retention. Raises ShardNotFound,
        CheckpointNotInStream for another shard's sequence number, and StreamError for text that is not a sequence
        number.
        """
        return _user_records_at(self._account, self.name, shard_id, sequence_number)

    def put(self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None) -> PutRecord:
        """Put one record, not aggregated, and return where it is. If the reply is lost, the record may be in the stream
        twice.

        Only a stream that distributes records itself takes one without a partition key; others raise StreamError.
        """
        if (why := why_not_put(data, partition_key, explicit_hash_key, may_be_keyless=True)) is not None:
            raise StreamError(f"{self.name} takes no such record: {why}")
        return self._account.put(self.name, NewRecord(data, partition_key, explicit_hash_key))


def _create(account: Account, stream: str, wanted: DesiredStream) -> None:
    from sublet.decisions.streams.stream_changes import check_wanted

    named = DEFINITIONS["stream"]
    named.check(stream)
    if not stream:
        raise SettingsError("stream", stream, named.allowed.described)
    check_wanted(wanted)
    is_provisioned = wanted.mode is StreamMode.PROVISIONED
    account.create(stream, 1 if wanted.shards is None and is_provisioned else wanted.shards)
    _wait_until(account, stream, _is_active)
    _update(account, stream, wanted)


def _update(account: Account, stream: str, wanted: DesiredStream) -> None:
    from sublet.decisions.streams.stream_changes import changes

    for change in changes(account.info(stream), wanted):
        account.change(stream, change)
        _wait_until(account, stream, _is_active)


def _is_active(info: StreamInfo) -> bool:
    return info.status == ACTIVE


def _wait_until(account: Account, stream: str, is_done: Callable[[StreamInfo], bool]) -> None:
    since = account.clock.steady()
    while not is_done(info := account.info(stream)):
        if account.clock.steady() - since > CHANGE_TAKES_AT_MOST:
            raise StreamUnavailable(f"stream {stream} is {info.status} for {CHANGE_TAKES_AT_MOST}; look at it")
        account.tasks.signal().wait(CHANGE_POLLED_EVERY)


def _user_records_at(account: Account, stream: str, shard_id: str, sequence_number: str) -> list[UserRecord]:
    """Leaves out the next record, which Kinesis returns instead of one that is past retention."""
    from sublet.decisions.session.read_position import IteratorType, ReadPosition
    from sublet.ports import Refusal
    from sublet.protocol.aggregation import deaggregated

    _check_place(stream, shard_id, sequence_number)
    at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number)
    reader = account.reading(stream).reader(shard_id, at)
    for _ in range(GET_READS):
        page = reader.read(1)
        if isinstance(page, Refusal):
            account.tasks.signal().wait(GET_RETRIED_AFTER)
        elif page.records or page.is_shard_end or not page.millis_behind_latest:
            found = tuple(one for one in page.records if one.sequence_number == sequence_number)
            parts = deaggregated(found, None, USER_RECORDS_AT_ONCE)
            return [record for part in parts for record in part.user_records]
    raise StreamUnavailable(f"shard {shard_id} of {stream} did not answer {GET_READS} reads; try again")


def _check_place(stream: str, shard_id: object, sequence_number: object) -> None:
    """Raises StreamError, with a plainer message than Kinesis' own."""
    if not isinstance(shard_id, str) or not shard_id:
        raise StreamError(f"{stream} has no shard {shard_id!r:.300}: name one as record.shard_id does")
    if not (isinstance(sequence_number, str) and sequence_number.isascii() and sequence_number.isdecimal()):
        raise StreamError(
            f"{stream} has no record {sequence_number!r:.300}: give its number as text, as record.sequence_number is"
        )
