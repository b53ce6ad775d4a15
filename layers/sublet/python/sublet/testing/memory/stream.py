"""A Kinesis stream in memory, with true resharding: closed shards keep their records and name their children.

It has the properties of Kinesis that consumers trip over. The last records and the shard's end come in one page.
Iterators expire, and pages have at most 10 MB. A trimmed checkpoint reads on from the horizon. Quiet stretches are
walked in empty pages (`sublet.testing.memory.walk`). Read limits are optional.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random

from sublet.decisions.session.read_position import SHORTEST_RETENTION, IteratorType, ReadPosition
from sublet.errors import CheckpointNotInStream, ShardNotFound, StreamError, StreamNotFound
from sublet.ports import Clock, PollRefusal, ShardReader
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.records import GetRecordsReply, Page
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import PutRecord, RecordDistribution, StreamDescription
from sublet.reading.polling import PollingReader
from sublet.settings import POLLS_PER_SECOND_MAX, READ_BYTES_PER_SECOND, StartKind, StartPosition
from sublet.testing.memory.clock import FakeClock
from sublet.testing.memory.shard_log import ShardLog
from sublet.testing.memory.walk import Advance, drawn

ITERATOR_LIFETIME = timedelta(seconds=300)
"""Kinesis: an iterator not used for this long has expired."""

_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)


class MemoryStream:
    """The Stream port, plus the calls of producers and operators: put, split, merge, trim, delete.

    Safe for threads. Time is the clock's: nothing expires and no throttling ends unless the clock moves.
    """

    def __init__(
        self,
        shards: int = 1,
        *,
        clock: Clock | None = None,
        throttled: bool = False,
        name: str = "memory",
        short_numbers: bool = False,
        advance: Advance | None = None,
        stamp: Callable[[datetime], datetime] = lambda arrived: arrived,
    ) -> None:
        """The stream's options.

        throttled      refuse polls above 5 calls or 2 MB a second on a shard, as the service does
        short_numbers  sequence numbers of half the length, and of varying lengths
        advance        how much of a shard's time each poll covers; by default a minute to an hour, drawn in the same
                       order each time
        stamp          turns a record's arrival time into its approximate arrival time
        """
        if shards < 1:
            raise ValueError(f"a stream of {shards} shards: it has at least one")
        self.name = name
        self._short_numbers = short_numbers
        self._clock = clock or FakeClock()
        self._created_at = self._clock.now()
        self._throttled = throttled
        self._stamp = stamp
        self._advance = advance or drawn(Random(0))  # noqa: S311 -- a test's chance
        self._lock = threading.RLock()
        self._logs: dict[str, ShardLog] = {}
        self._created = 0
        self._position = 0
        self._deleted = False
        self.distribution: RecordDistribution | None = RecordDistribution.USER_PARTITION_KEY
        """With AUTO, records go to the open shards in turn and need no partition key. None: descriptions do not say."""
        size = (HASH_KEY_MAX + 1) // shards
        for index in range(shards):
            ending = HASH_KEY_MAX if index == shards - 1 else (index + 1) * size - 1
            self._create_shard(HashKeyRange(index * size, ending))

    # The consumer's side: the Stream port.

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        with self._lock:
            self._check_exists()
            logs = (
                self._logs.values() if at is None else [log for log in self._logs.values() if self._was_open(log, at)]
            )
            return tuple(log.shard() for log in logs)

    def describe(self) -> StreamDescription:
        with self._lock:
            self._check_exists()
            arn = f"arn:aws:kinesis:us-east-1:000000000000:stream/{self.name}"
            identity = StreamIdentity(arn, self._created_at)
            return StreamDescription(identity, self._clock.now(), SHORTEST_RETENTION, self.distribution)

    def has_shard(self, shard_id: str) -> bool:
        with self._lock:
            self._check_exists()
            return shard_id in self._logs

    def service_time(self) -> datetime:
        with self._lock:
            self._check_exists()
            return self._clock.now()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        with self._lock:
            return self._iterator(shard_id, *self._resolve(self._log(shard_id), position))

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | PollRefusal:
        with self._lock:
            shard_id, position, opened_at, reached = iterator.split(" ")
            now = self._clock.now()
            log = self._log(shard_id)
            if now - datetime.fromisoformat(opened_at) >= ITERATOR_LIFETIME:
                return PollRefusal.ITERATOR_EXPIRED
            if self._throttled and _over_limit(log, now):
                return PollRefusal.THROTTLED
            reply, after = self._next_page(log, int(position), datetime.fromisoformat(reached), limit)
            paid_for = log.bytes_between(int(position), after) / READ_BYTES_PER_SECOND
            log.readable_at = now + _SECOND * paid_for
            return reply

    def pushed(self, iterator: str, limit: int) -> GetRecordsReply:
        """Like `poll`, for a subscription: it has no iterator that expires, and its limits are its own."""
        with self._lock:
            shard_id, position, _, reached = iterator.split(" ")
            return self._next_page(self._log(shard_id), int(position), datetime.fromisoformat(reached), limit)[0]

    def _next_page(self, log: ShardLog, position: int, reached: datetime, limit: int) -> tuple[GetRecordsReply, int]:
        """The reply, and the position after its records. `reached`: the moment in the shard's time that was reached
        before.
        """
        now, began = self._clock.now(), max(reached, log.horizon)
        reached = min(began + self._advance(), now)
        records, size, after = log.read(position, limit, reached if reached < now else None)
        waits, at = log.arrival_at(after), now.replace(microsecond=0)
        if waits is None and log.closed_at is not None and reached >= log.closed_at:
            return GetRecordsReply(Page(records, size, 0, True, log.children, at), None), after
        behind = _behind(waits, reached, now)
        if records and waits is not None and waits <= reached:  # more than the page holds
            reached = max(records[-1].approximate_arrival_timestamp, began)
        page = Page(records, size, behind, answered_at=at)
        return GetRecordsReply(page, self._iterator(log.shard_id, after, reached)), after

    def continuation(self, iterator: str) -> str:
        """A sequence number after which a subscription goes on as this iterator would."""
        with self._lock:
            shard_id, position, _, _ = iterator.split(" ")
            return str(self._log(shard_id).continuation(int(position), self._next_position()))

    def resumed(self, shard_id: str, position: ReadPosition, reached: datetime) -> str:
        """Like `open`, but for a moment in the shard's time that the caller knows to have been reached."""
        with self._lock:
            log = self._log(shard_id)
            return self._iterator(shard_id, self._resolve(log, position)[0], reached)

    def without_records(self, iterator: str) -> GetRecordsReply:
        """A page without a record and without any advance, although there may be records: a poll may return one
        anywhere.
        """
        with self._lock:
            shard_id, position, _, reached_text = iterator.split(" ")
            now, reached = self._clock.now(), datetime.fromisoformat(reached_text)
            page = Page((), 0, max((now - reached) // _MILLISECOND, 1), answered_at=now.replace(microsecond=0))
            return GetRecordsReply(page, self._iterator(shard_id, int(position), reached))

    # The producer's side.

    def put(self, partition_key: str | None, data: bytes, explicit_hash_key: int | None = None) -> str:
        """Put one record (or one KPL aggregate) into the shard of its hash key. Returns its sequence number."""
        return self.put_record(partition_key, data, explicit_hash_key).sequence_number

    def put_record(self, partition_key: str | None, data: bytes, explicit_hash_key: int | None = None) -> PutRecord:
        """Like `put`, but also returns the shard. Raises StreamError for a record that only a stream with AUTO
        accepts.
        """
        with self._lock:
            self._check_exists()
            log, now = self._placed(partition_key, explicit_hash_key), self._clock.now()
            number = log.append(partition_key, data, now, self._stamp(now), self._next_position())
            return PutRecord(log.shard_id, number)

    def shard_taking(self, partition_key: str | None, explicit_hash_key: int | None = None) -> str:
        """The shard that the next record with these keys goes to."""
        with self._lock:
            return self._placed(partition_key, explicit_hash_key).shard_id

    def _placed(self, partition_key: str | None, explicit_hash_key: int | None) -> ShardLog:
        still_open = [log for log in self._logs.values() if log.is_open]
        if self.distribution is RecordDistribution.AUTO:
            return still_open[self._position % len(still_open)]
        if partition_key is None:
            raise StreamError(
                f"stream {self.name} accepts no record without a partition key: its distribution is not AUTO"
            )
        key = hash_key(partition_key, None) if explicit_hash_key is None else explicit_hash_key
        return next(log for log in still_open if key in log.hash_key_range)

    def put_all(self, records: Iterable[tuple[str | None, bytes]]) -> list[str]:
        """Put (partition key, data) pairs in order, and return their sequence numbers."""
        return [self.put(partition_key, data) for partition_key, data in records]

    # The operator's side.

    def split(self, shard_id: str, at: int | None = None) -> tuple[str, str]:
        """Close an open shard and open its children, the second from hash key `at` on (default: half way)."""
        with self._lock:
            parent = self._open_log(shard_id)
            starting, ending = parent.hash_key_range
            middle = (starting + ending + 1) // 2 if at is None else at
            if not starting < middle <= ending:
                raise ValueError(f"{middle} does not split {shard_id}, which has {starting} to {ending}")
            ranges = (HashKeyRange(starting, middle - 1), HashKeyRange(middle, ending))
            first, second = (self._create_shard(half, (shard_id,)) for half in ranges)
            self._close(parent, first, second)
            return first.shard_id, second.shard_id

    def merge(self, shard_id: str, adjacent_shard_id: str) -> str:
        """Close two open shards whose hash ranges touch, and open their one child."""
        with self._lock:
            parents = [self._open_log(shard_id), self._open_log(adjacent_shard_id)]
            low, high = sorted(parents, key=lambda log: log.hash_key_range)
            if low.hash_key_range.ending + 1 != high.hash_key_range.starting:
                raise ValueError(f"{shard_id} and {adjacent_shard_id} are not adjacent")
            whole = HashKeyRange(low.hash_key_range.starting, high.hash_key_range.ending)
            child = self._create_shard(whole, (shard_id, adjacent_shard_id))
            for parent in parents:
                self._close(parent, child)
            return child.shard_id

    @property
    def logs(self) -> tuple[ShardLog, ...]:
        """Every shard with its records, in the order of their creation."""
        with self._lock:
            return tuple(self._logs.values())

    def trim(self, before: datetime) -> None:
        """Retention: drop records that arrived, and shards that closed, before the moment."""
        with self._lock:
            for log in self._logs.values():
                log.trim(before)
            self._logs = {i: log for i, log in self._logs.items() if log.closed_at is None or log.closed_at >= before}

    def delete(self) -> None:
        """Delete the stream: every later call raises StreamNotFound."""
        self._deleted = True

    def _resolve(self, log: ShardLog, position: ReadPosition) -> tuple[int, datetime]:
        """The position, and the moment in the shard's time."""
        match position.type:
            case IteratorType.TRIM_HORIZON:
                return 0, log.horizon
            case IteratorType.LATEST:
                return log.end, self._clock.now()
            case IteratorType.AT_TIMESTAMP:
                assert position.at is not None, "AT_TIMESTAMP goes with a moment"
                if position.sequence_number is not None:
                    self._check_owner(log, int(position.sequence_number))
                return log.position_at_time(position.at), position.at
        number = int(position.sequence_number or "")
        self._check_owner(log, number)
        after = position.type is IteratorType.AFTER_SEQUENCE_NUMBER
        return log.position_after(number) if after else log.position_at(number), log.moment_of(number)

    def _check_owner(self, log: ShardLog, number: int) -> None:
        if not log.owns(number):
            raise CheckpointNotInStream(
                f"sequence number {number} was not assigned by {log.shard_id} of stream {self.name}"
            )

    def _was_open(self, log: ShardLog, at: StartPosition) -> bool:
        """A shard without listed parents was open at the trim horizon; at a tie the parents count as open."""
        is_oldest = not any(parent in self._logs for parent in log.parents)
        if at.kind is StartKind.LATEST:
            return log.is_open
        if at.at is None:
            return is_oldest
        return (is_oldest or log.created_at < at.at) and (log.closed_at is None or log.closed_at >= at.at)

    def _iterator(self, shard_id: str, position: int, reached: datetime) -> str:
        return f"{shard_id} {position} {self._clock.now().isoformat()} {reached.isoformat()}"

    def _create_shard(self, hash_key_range: HashKeyRange, parents: tuple[str, ...] = ()) -> ShardLog:
        log = ShardLog(
            self._created,
            hash_key_range,
            self._clock.now(),
            self._next_position(),
            parents,
            self._short_numbers,
        )
        self._created += 1
        self._logs[log.shard_id] = log
        return log

    def _close(self, parent: ShardLog, *children: ShardLog) -> None:
        parent.closed_at = self._clock.now()
        parent.children = tuple(child.child() for child in children)

    def _next_position(self) -> int:
        self._position += 1
        return self._position

    def _check_exists(self) -> None:
        if self._deleted:
            raise StreamNotFound(f"stream {self.name} has been deleted")

    def _log(self, shard_id: str) -> ShardLog:
        self._check_exists()
        if shard_id not in self._logs:
            raise ShardNotFound(f"stream {self.name} has no shard {shard_id}")
        return self._logs[shard_id]

    def _open_log(self, shard_id: str) -> ShardLog:
        log = self._log(shard_id)
        if not log.is_open:
            raise ValueError(f"{shard_id} is closed already")
        return log


def _behind(waits: datetime | None, reached: datetime, now: datetime) -> int:
    """How far a page is behind the tip, in milliseconds: by the first waiting record if the page has reached it,
    otherwise by how far the page came. 0 for an empty page only at the tip.
    """
    if waits is not None and waits <= reached:
        return max((now - waits) // _MILLISECOND, 0)
    return max((now - reached) // _MILLISECOND, 1) if reached < now else 0


def _over_limit(log: ShardLog, now: datetime) -> bool:
    """Counts this read, and returns whether the shard's limit of calls or bytes forbids it."""
    if now < log.readable_at - _SECOND:
        return True
    if len(log.reads) == POLLS_PER_SECOND_MAX and now - log.reads[0] < _SECOND:
        return True
    log.reads.append(now)
    return False
