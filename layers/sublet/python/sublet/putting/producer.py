"""`sublet.Producer`: puts records into a stream, in KPL aggregates, in order, and never drops one silently."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from datetime import timedelta
from random import SystemRandom
from threading import Lock, get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from sublet.decisions.putting.producer_options import ProducerOptions, producer_rules
from sublet.errors import ProducerClosed, RecordRefused
from sublet.ports import Signal
from sublet.protocol.records import why_not_put
from sublet.protocol.stream_identity import stream_settings
from sublet.protocol.stream_info import PutRecord
from sublet.putting.put_future import PutFuture
from sublet.runtimes.scraped_metrics import SCRAPED
from sublet.settings import DEFINITIONS
from sublet.system.at_exit import AtExit

if TYPE_CHECKING:  # not loaded by `import sublet`
    from sublet.decisions.putting.outbox import ProducerRules
    from sublet.decisions.putting.producing import Produced, SettledRecords
    from sublet.ports.account import Account
    from sublet.putting.loop import PuttingLoop, Tell

WAITED_AT_ONCE = timedelta(minutes=1)
"""How long one wait lasts. Longer waits are made of several."""

COUNTED = ("user_records", "stream_records", "calls", "retried", "sent_again", "given_up")
"""What `Produced` counts and Prometheus is shown."""

FORKED = "this producer was made in another process, and its threads stayed there; make a producer in each process"
CALLED_BACK = (
    "flush and close wait until the callbacks of all futures have returned, and this is one of them: call them from "
    "another thread, or after it"
)


class Producer:
    """Puts records into one stream:

        with sublet.Producer("orders") as producer:
            for order in orders:
                producer.put(order.customer, order.as_json())

    The block ends when all records are in the stream; if some were given up, it raises RecordsNotPut. Safe for threads.
    Records wait in this process' memory: SIGKILL, or SIGTERM without a handler, loses them. A program that ends in
    another way without `close` puts them at Python's exit.

    stream                    its name or ARN
    account                   instead of this machine's configuration: `sublet.connect(...).account`
    aggregation_enabled       pack small records of one shard into KPL aggregates, which KCL and sublet take apart.
                              Never done where Kinesis places the records (RecordDistributionStrategy AUTO)
    aggregation_max_size      bytes of an aggregate
    record_max_buffered_time  seconds, or a timedelta, that a record waits for others
    ordered                   records of one partition key are stored in the order of their puts, through refusals,
                              retries and reshards. If an answer is lost, some may be repeated, in the same order
    rate_limit                percent of a shard's write limit (1,000 records and 1 MiB a second) to use; None: no limit
    patience                  seconds, or a timedelta: a record is given up when Kinesis has refused it, or all of its
                              shard's records, for this long. Waiting behind others does not count
    max_connections           calls in flight at once
    max_buffered_bytes        a put waits while records that are not known to be in the stream take this much memory:
                              500 bytes each beside their own
    """

    def __init__(self, stream: str, *, account: Account | None = None, **options: Unpack[ProducerOptions]) -> None:
        """Makes no call. Raises SettingsError."""
        self._lazy_loop = LazyLoop(stream, account, options)
        self._calling_back: set[int] = set()
        """The threads that are calling back futures, each by its number."""

    @property
    def stream(self) -> str:
        """The stream as the program gave it."""
        return self._lazy_loop.stream

    @property
    def produced(self) -> Produced:
        """Counts of what it has done so far, in this process."""
        return self._lazy_loop.produced

    def put(self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None) -> Future[PutRecord]:
        """Takes the record, and returns a future of where it is stored: a shard and a sequence number, which an
        aggregate's records share. Waits while the buffer is full.

        The future raises RecordRefused for a record that Kinesis will never take, RecordTimedOut for one that was given
        up after `patience`, or another StreamError. Cancelling it does not stop the record. A record that Kinesis could
        never take is refused here. Raises ProducerClosed, and ProducerFailed after a fault of the producer itself.
        """
        check_record(data, partition_key, explicit_hash_key)
        future = PutFuture()
        loop = self._lazy_loop.loop(self._tell)
        while (room := loop.offer(data, partition_key, explicit_hash_key, future)) is not None:
            room.wait(WAITED_AT_ONCE)
        return future

    def flush(self) -> None:
        """Send all that was put, without letting it wait for more. Returns when it is in the stream. Raises
        RecordsNotPut if records were given up since the last flush. A future's callback, which it would wait for, gets
        a RuntimeError.
        """
        self._refuse_callbacks()
        if (loop := self._lazy_loop.loop_if_used()) is not None:
            _until_set(loop.flush())
            raise_failure(loop)

    def close(self) -> None:
        """Flush, and take no more records. May be repeated, and does nothing in a child process."""
        self._refuse_callbacks()
        if (loop := self._lazy_loop.loop_to_close()) is not None:
            _until_set(loop.close())
            self._lazy_loop.closed()
            raise_failure(loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        """Close. An exception that ends the block stays the one that is raised."""
        if kind is None:
            self.close()
        elif (loop := self._lazy_loop.loop_to_close()) is not None and get_ident() not in self._calling_back:
            _until_set(loop.close())
            self._lazy_loop.closed()

    def _refuse_callbacks(self) -> None:
        if get_ident() in self._calling_back:
            raise RuntimeError(CALLED_BACK)

    def _tell(self, settled: Sequence[SettledRecords]) -> None:
        """Sets all of the futures, even if a callback raises SystemExit or asyncio's CancelledError, which Future lets
        through. Then raises the first of these.
        """
        failures: list[BaseException] = []
        self._calling_back.add(get_ident())
        try:
            for some in settled:
                for record in some.user_records:
                    try:
                        _set(record.ticket, some.outcome)  # type: ignore[arg-type]
                    except BaseException as failure:  # noqa: BLE001 -- the other futures must be set too
                        failures.append(failure)
        finally:
            self._calling_back.discard(get_ident())
        if failures:
            raise failures[0]


class LazyLoop:
    """A producer's loop, made with its first record: for plain Python and asyncio alike. Safe for threads.

    If the program ends without having closed the producer, what it has put is put at Python's exit.
    """

    def __init__(self, stream: str, account: Account | None, options: ProducerOptions) -> None:
        """Raises SettingsError, and TypeError for an option that a producer does not have."""
        self.stream = stream
        DEFINITIONS["stream"].check(stream_settings(stream)["stream"])
        unknown = sorted(options.keys() - ProducerOptions.__optional_keys__)
        if unknown:
            known = ", ".join(sorted(ProducerOptions.__optional_keys__))
            raise TypeError(f"Producer has no option {', '.join(unknown)}; its options are account, {known}")
        self._rules: ProducerRules = producer_rules(**options)
        self._account = account
        self._loop: PuttingLoop | None = None
        # Guards `_loop` and `_is_closed`: two loops would break the order of keys, and only one of them would be
        # closed.
        self._lock = Lock()
        self._is_closed = False
        self._owner_pid = os.getpid()
        self._at_exit: AtExit | None = None

    @property
    def produced(self) -> Produced:
        from sublet.decisions.putting.producing import Produced

        return Produced() if self._loop is None or self._is_of_parent else self._loop.produced

    @property
    def is_started(self) -> bool:
        return self._loop is not None

    def loop(self, tell: Tell) -> PuttingLoop:
        """The loop, which the first call makes. Over AWS that loads boto3, which would block an event loop for a
        moment. Raises ProducerClosed.
        """
        loop = self._loop
        if loop is None:
            with self._lock:
                if self._is_closed:
                    from sublet.putting.loop import CLOSED

                    raise ProducerClosed(CLOSED)
                loop = self._loop = self._loop or self._new_loop(tell)
        if self._is_of_parent:
            raise ProducerClosed(FORKED)
        return loop

    def loop_if_used(self) -> PuttingLoop | None:
        """The loop; None if no record was put. Raises ProducerClosed."""
        if self._loop is not None and self._is_of_parent:
            raise ProducerClosed(FORKED)
        return self._loop

    def loop_to_close(self) -> PuttingLoop | None:
        """Allows no new loop from now on, and returns the loop to close. None if this process has none. Call `closed`
        once it is: a signal's handler may end the program while it waits for that.
        """
        if self._loop is None:
            with self._lock:
                self._is_closed = True
        if self._loop is None or self._is_of_parent:
            return None
        return self._loop

    def closed(self) -> None:
        """The outcome of every record is known: nothing is left for Python's exit."""
        if self._at_exit is not None:
            self._at_exit.forget()
        SCRAPED.end_producer(self)

    def counts(self) -> Mapping[str, float]:
        """For Prometheus."""
        waiting = 0 if self._loop is None or self._is_of_parent else self._loop.buffered_bytes
        return {**{name: getattr(self.produced, name) for name in COUNTED}, "buffered": waiting}

    @property
    def _is_of_parent(self) -> bool:
        return self._owner_pid != os.getpid()

    def _new_loop(self, tell: Tell) -> PuttingLoop:
        from sublet.putting.loop import ProducerPorts, PuttingLoop
        from sublet.putting.placing_source import PlacingSource
        from sublet.putting.tracing import PutTraces

        account = self._account or _aws_account()
        source = PlacingSource(account.reading(self.stream), account.clock, account.log)
        writer = account.writing(self.stream)
        traces = PutTraces(stream_settings(self.stream)["stream"], account.log)
        ports = ProducerPorts(writer, source, account.clock, account.tasks, SystemRandom(), account.log, traces)
        self._owner_pid = os.getpid()
        self._at_exit = AtExit(self._finish)
        if SCRAPED.is_on:
            SCRAPED.add_producer(self)
        return PuttingLoop(self._rules, ports, tell)

    def _finish(self) -> None:
        if self._loop is not None and not self._is_of_parent and self._loop.buffered_bytes:
            _until_set(self._loop.close())


def check_record(data: object, partition_key: object, explicit_hash_key: object) -> None:
    """Raises RecordRefused for a record that no stream would take."""
    if (why := why_not_put(data, partition_key, explicit_hash_key, may_be_keyless=True)) is not None:
        raise RecordRefused(why)


def _aws_account() -> Account:
    from sublet.aws.account import AwsAccount

    return AwsAccount()


def raise_failure(loop: PuttingLoop) -> None:
    if (failure := loop.failure()) is not None:
        raise failure


def _until_set(done: Signal) -> None:
    while not done.wait(WAITED_AT_ONCE):
        pass


def _set(future: PutFuture, outcome: PutRecord | Exception) -> None:
    try:
        future.settle(outcome)
    except InvalidStateError:
        if future.cancelled():  # only then does concurrent.futures.wait() count it as done
            future.set_running_or_notify_cancel()
