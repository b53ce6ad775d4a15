"""`sublet.Producer`: puts records into a stream, in KPL aggregates, in order, and loses none without saying so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from datetime import timedelta
from random import SystemRandom
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from sublet.decisions.producer_options import ProducerOptions, producer_rules
from sublet.errors import ProducerClosed, RecordRefused
from sublet.ports import Signal
from sublet.protocol.records import why_not_put
from sublet.protocol.stream_identity import stream_settings
from sublet.protocol.stream_info import PutRecord
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:  # not loaded by `import sublet`
    from sublet.account import Account
    from sublet.decisions.outbox import ProducerRules
    from sublet.decisions.producing import Produced, Settled
    from sublet.putting.loop import PuttingLoop, Tell

WAITED_AT_ONCE = timedelta(minutes=1)
"""A wait is repeated until it is over."""

FORKED = (
    "this producer was made in another process, and its threads stayed there; make a producer in each process"
)


class Producer:
    """Puts records into one stream:

        with sublet.Producer("orders") as producer:
            for order in orders:
                producer.put(order.customer, order.as_json())

    The block ends when all records are in the stream; if some were given up, it raises RecordsNotPut. Safe for threads. Records
    wait in this process' memory, so a process that ends before `flush` or `close` loses them.

    stream                    its name or ARN
    account                   instead of this machine's configuration: `sublet.connect(...).account`
    aggregation_enabled       pack small records of one shard into KPL aggregates, which KCL and sublet take apart. Never done
                              where Kinesis places the records (RecordDistributionStrategy AUTO)
    aggregation_max_size      bytes of an aggregate
    record_max_buffered_time  seconds, or a timedelta, that a record waits for others
    ordered                   records of one partition key are stored in the order of their puts, through refusals, retries and
                              reshards. If an answer is lost, some may be repeated, in the same order
    rate_limit                percent of a shard's write limit (1,000 records and 1 MiB a second) to use; None: no limit
    patience                  seconds, or a timedelta: a record is given up when Kinesis has refused it, or all of its shard's
                              records, for this long. Waiting behind others does not count
    max_connections           calls in flight at once
    max_buffered_bytes        a put waits while records of this many bytes are not known to be in the stream
    """

    def __init__(
        self, stream: str, *, account: Account | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        """Makes no call. Raises SettingsError."""
        self._parts = LoopParts(stream, account, options)
        self._loop: PuttingLoop | None = None
        # Guards `_loop`: two loops would break the order of keys, and only one of them would be closed.
        self._making_loop = Lock()

    @property
    def stream(self) -> str:
        """As it was given."""
        return self._parts.stream

    @property
    def produced(self) -> Produced:
        """Counts of what it has done so far."""
        return self._running.produced

    def put(
        self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None
    ) -> Future[PutRecord]:
        """Takes the record, and returns a future of where it is stored: a shard and a sequence number, which an aggregate's
        records share. Waits while the buffer is full.

        The future raises RecordRefused for a record that Kinesis will never take, RecordTimedOut for one that was given up after
        `patience`, or another StreamError. Cancelling it does not stop the record. A record that Kinesis could never take is
        refused here. Raises ProducerClosed.
        """
        check_record(data, partition_key, explicit_hash_key)
        future: Future[PutRecord] = Future()
        loop = self._running
        while (room := loop.offer(data, partition_key, explicit_hash_key, future)) is not None:
            room.wait(WAITED_AT_ONCE)
        return future

    def flush(self) -> None:
        """Send all that was put, without letting it wait for more. Returns when it is in the stream. Raises RecordsNotPut if
        records were given up since the last flush. Not for a future's callback, which it would wait for.
        """
        self._wait(self._running.flush())

    def close(self) -> None:
        """Flush, and take no more records. May be repeated."""
        self._wait(self._running.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close. An exception that ends the block stays the one that is raised."""
        if kind is None:
            self.close()
        else:
            _until_set(self._running.close())

    @property
    def _running(self) -> PuttingLoop:
        loop = self._loop
        if loop is None:
            with self._making_loop:
                loop = self._loop = self._loop or self._parts.loop(_tell)
        self._parts.check_process()
        return loop

    def _wait(self, done: Signal) -> None:
        _until_set(done)
        if (failure := self._running.failure()) is not None:
            raise failure


class LoopParts:
    """A producer's arguments, for plain Python and asyncio alike, and the loop that is made from them. Raises SettingsError."""

    def __init__(self, stream: str, account: Account | None, options: ProducerOptions) -> None:
        self.stream = stream
        DEFINITIONS["stream"].check(stream_settings(stream)["stream"])
        self.rules: ProducerRules = producer_rules(**options)
        self._account = account
        self._made_in = os.getpid()

    def loop(self, tell: Tell) -> PuttingLoop:
        """Make the loop. Over AWS this loads boto3, which would block an event loop for a moment."""
        from sublet.putting.loop import Putters, PuttingLoop
        from sublet.putting.placing_source import PlacingSource

        account = self._account or _aws_account()
        source = PlacingSource(account.reading(self.stream), account.clock, account.log)
        writer = account.writing(self.stream)
        putters = Putters(writer, source, account.clock, account.tasks, SystemRandom(), account.log)
        self._made_in = os.getpid()
        return PuttingLoop(self.rules, putters, tell)

    def check_process(self) -> None:
        if self._made_in != os.getpid():
            raise ProducerClosed(FORKED)


def check_record(data: object, partition_key: object, explicit_hash_key: object) -> None:
    """Raises RecordRefused for a record that no stream would take."""
    if (why := why_not_put(data, partition_key, explicit_hash_key, may_be_keyless=True)) is not None:
        raise RecordRefused(why)


def _aws_account() -> Account:
    from sublet.aws.account import AwsAccount

    return AwsAccount()


def _until_set(done: Signal) -> None:
    while not done.wait(WAITED_AT_ONCE):
        pass


def _tell(settled: Sequence[Settled]) -> None:
    for some in settled:
        for record in some.user_records:
            future: Future[PutRecord] = record.ticket  # type: ignore[assignment]
            try:
                if isinstance(some.outcome, PutRecord):
                    future.set_result(some.outcome)
                else:
                    future.set_exception(some.outcome)
            except InvalidStateError:
                pass  # the program has cancelled it
